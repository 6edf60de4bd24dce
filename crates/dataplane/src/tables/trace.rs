//! Where a packet goes by the objects alone: their rules, run, with every random branch followed.

use portolan_model::Family;
use portolan_plan::{Candidate, Fate, NodePlan, Packet, Reason, Refusal, Step, Trace};

use super::objects::{Key, Place, Value};
use super::refusals::words;
use super::run::RuleBook;
use crate::walk::{End, Ending, Met, walk};

pub(crate) fn trace<'a>(
    contents: impl Iterator<Item = (&'a Key, &'a Value)> + Clone,
    node: &NodePlan,
    packet: &Packet,
) -> Trace {
    let outcome = walk(&book(contents, Family::of(packet.destination)), node, packet);
    let steps = outcome.endings.first().map(|ending| ending.path.iter().map(step).collect()).unwrap_or_default();
    Trace { steps, fate: fate(&outcome.endings), service: None }
}

pub(crate) fn book<'a>(contents: impl Iterator<Item = (&'a Key, &'a Value)> + Clone, family: Family) -> RuleBook {
    let mut book = RuleBook::default();
    let mut add = |place: &Place, rule: &str| book.add(family, place.table.name(), &place.chain, rule);
    let of_family = contents.filter(|(key, _)| key.place().family == family);
    for (key, _) in of_family.clone() {
        if let Key::Rule(place, rule, _) | Key::Jump(place, _, rule) = key {
            add(place, rule);
        }
    }
    // What stands at the end of a list comes behind its rules.
    for (key, value) in of_family {
        value.as_rules().iter().for_each(|rule| add(key.place(), rule));
    }
    book
}

pub(crate) fn step(met: &Met) -> Step {
    Step::new(met.chain.to_string(), met.rule.to_string())
}

pub(crate) fn fate(endings: &[Ending]) -> Fate {
    let mut candidates: Vec<Candidate> = endings
        .iter()
        .filter_map(|ending| match ending.end {
            End::Forward(endpoint) => Some(Candidate { endpoint, masquerade: ending.masquerade }),
            _ => None,
        })
        .collect();
    candidates.sort_unstable();
    match endings.first().map(|ending| (ending.end, ending.path.last())) {
        Some((End::Forward(_), _)) => Fate::Forward(candidates),
        Some((End::Reject, Some(met))) => {
            reason(met).map_or(Fate::Pass, |reason| Fate::Refuse(Refusal::Reject(reason)))
        }
        Some((End::Drop, Some(met))) => reason(met).map_or(Fate::Pass, |reason| Fate::Refuse(Refusal::Drop(reason))),
        _ => Fate::Pass,
    }
}

/// The comment of the rule that refused.
fn reason(met: &Met) -> Option<Reason> {
    Reason::ALL.into_iter().find(|reason| met.rule.contains(words(*reason)))
}
