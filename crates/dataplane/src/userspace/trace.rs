//! Traces a packet: through the rules to a listener, and from there to an endpoint.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use portolan_model::Family;
use portolan_plan::{Candidate, Fate, NodePlan, Packet, Step, Trace};

use super::objects::{Key, Listener, Targets, Value};
use super::{Userspace, ports};
use crate::tables;
use crate::tracer::EachFamily;
use crate::walk::{End, Met, Outcome, Rules, walk};
use crate::{Objects, fate};

/// A port without a listener.
const NO_LISTENER: u16 = 0;

pub(super) fn tracer<'a>(
    objects: &'a Objects<Userspace>,
    foreign: &'a dyn Rules,
    node: &'a NodePlan,
) -> impl Fn(&Packet) -> Trace + 'a {
    let prepared = EachFamily::new(move |family| {
        let listeners = Listeners::of(objects, family);
        let contents: Vec<(tables::Key, tables::Value)> = rules(objects).map(|rule| listeners.numbered(rule)).collect();
        let book = tables::trace::book(contents.iter().map(|(key, value)| (key, value)), family);
        (listeners, book)
    });
    move |packet| {
        let (listeners, book) = prepared.of(packet);
        trace(listeners, &walk(book, foreign, node, packet), packet)
    }
}

fn trace(listeners: &Listeners<'_>, outcome: &Outcome, packet: &Packet) -> Trace {
    let mut trace = fate::trace(outcome, tables::trace::reason, |met| listeners.step(met));
    if let Fate::Forward(_) = trace.fate
        && let Some(End::Forward(to)) = outcome.endings.first().map(|ending| ending.end)
    {
        trace.fate = listeners.fate(to, packet.source, &mut trace.steps);
    }
    trace
}

fn rules(objects: &Objects<Userspace>) -> impl Iterator<Item = (&tables::Key, &tables::Value)> {
    objects.0.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Table(key), Value::Table(value)) => Some((key, value)),
        _ => None,
    })
}

/// The listeners of a family, each with a number that replaces its port in the trace.
struct Listeners<'a> {
    all: Vec<(&'a Listener, &'a Targets)>,
    numbers: BTreeMap<&'a str, u16>,
}

impl<'a> Listeners<'a> {
    fn of(objects: &'a Objects<Userspace>, family: Family) -> Self {
        let all: Vec<_> = objects
            .0
            .iter()
            .filter_map(|(key, value)| match (key, value) {
                (Key::Listener(listener), Value::Targets(targets)) if listener.family == family => {
                    Some((listener, targets))
                }
                _ => None,
            })
            .collect();
        let numbers = (1..=u16::MAX).zip(&all).map(|(number, (listener, _))| (&*listener.name, number)).collect();
        Self { all, numbers }
    }

    /// A rule with the number of its listener; a port of the kernel's that no listener of ours has becomes
    /// [`NO_LISTENER`].
    fn numbered(&self, (key, value): (&tables::Key, &tables::Value)) -> (tables::Key, tables::Value) {
        let number = |name: &str| self.numbers.get(name).copied().unwrap_or(NO_LISTENER);
        ports::with_rule(key, value, |rule| {
            ports::template(rule)?;
            Some(ports::with_port(rule, ports::named(rule).map_or(NO_LISTENER, number)))
        })
    }

    /// A traced rule, with its listener's name restored.
    fn step(&self, met: &Met) -> Step {
        let listener = ports::port(&met.content).and_then(|number| self.numbered_as(number));
        let rule =
            listener.map_or_else(|| met.content.clone(), |(listener, _)| ports::with_name(&met.content, listener));
        Step::new(met.place.to_string(), rule.to_string())
    }

    fn numbered_as(&self, number: u16) -> Option<(&'a Listener, &'a Targets)> {
        usize::from(number).checked_sub(1).and_then(|index| self.all.get(index)).copied()
    }

    fn fate(&self, to: SocketAddr, client: IpAddr, steps: &mut Vec<Step>) -> Fate {
        let Some((listener, targets)) = self.numbered_as(to.port()) else {
            let because = "the rule leads to a port on which this daemon does not listen";
            steps.push(Step::new("no listener", because));
            return Fate::Stopped { by: format!("port {}: {because}", to.port()) };
        };
        let met = format!("listener {}", listener.name);
        let how = targets.selection_text();
        steps.push(Step::new(met, format!("the daemon connects to an endpoint that answers, {how}")));
        let slots = &targets.endpoints;
        let slot = targets.balance.slot_of(client, slots.len());
        let reached = slot.and_then(|slot| slots.get(slot..=slot)).unwrap_or(slots);
        let mut candidates: Vec<Candidate> =
            reached.iter().map(|endpoint| Candidate { endpoint: *endpoint, masquerade: true }).collect();
        candidates.sort_unstable();
        Fate::Forward(candidates)
    }
}
