//! Where a packet goes by the objects alone: the machine runs them as the kernel would.

use std::net::SocketAddr;

use portolan_kernel::nftables::{ChainKind as KernelKind, Element, Expression, Policy};
use portolan_model::Family;
use portolan_plan::{NodePlan, Packet, Reason, Refusal, Step, Trace};

use super::TABLE;
use super::affinity::is_clients_map;
use super::codec::{decode, encode};
use super::objects::{Chain, Key, Value, verdict_text};
use super::routes::refusal_name;
use super::sets::{Data, SetName};
use crate::fate;
use crate::machine::{self, Base, OnError, Rule, Ruleset, Set, Table, chain_place};
use crate::tracer::EachFamily;
use crate::walk::{ChainKind, Hook, Met, Rules, walk};

pub(crate) fn tracer<'a>(
    objects: impl IntoIterator<Item = (&'a Key, &'a Value)> + Clone + 'a,
    foreign: &'a dyn Rules,
    node: &'a NodePlan,
) -> impl Fn(&Packet) -> Trace + 'a {
    let rules = EachFamily::new(move |family| Ruleset { tables: vec![table(objects.clone(), family)] });
    move |packet| {
        let family = Family::of(packet.destination);
        fate::trace(&walk(rules.of(packet), foreign, node, packet), |met| reason(family, met), step)
    }
}

fn table<'a>(objects: impl IntoIterator<Item = (&'a Key, &'a Value)>, family: Family) -> Table {
    let families: &[Family] = if family == Family::V4 { &[Family::V4] } else { &[Family::V6] };
    let mut table = Table { describe: Some(describe), ..Table::new(table_name(family), families, OnError::End) };
    for (key, value) in objects {
        match (key, value) {
            (Key::Set(of, name), Value::Set(spec)) if *of == family => {
                let is_learned = is_clients_map(name) || SetName::from_name(name).is_some_and(SetName::is_counted);
                let set = if is_learned { Set::of_clients(spec, None) } else { Set::new(spec, None) };
                table.sets.insert(name.clone(), set);
            }
            (Key::Chain(of, name), Value::Chain(of_chain)) if *of == family => {
                table.chains.insert(name.clone(), chain(of_chain));
            }
            (Key::Element(of, set, key), value) if *of == family => {
                if let Some(set) = table.sets.get_mut(set.name()) {
                    set.add(encode(key, value));
                }
            }
            _ => {}
        }
    }
    table
}

fn table_name(family: Family) -> String {
    format!("table {} {TABLE}", family.nft_name())
}

fn chain(chain: &Chain) -> machine::Chain {
    let base = chain.hook.as_ref().map(|hook| Base {
        hook: Hook::from(hook.point),
        kind: if hook.kind == KernelKind::Nat { ChainKind::Nat } else { ChainKind::Filter },
        priority: hook.priority,
        policy: Policy::Accept,
    });
    let is_foreign = chain.hook.as_ref().is_some_and(|hook| hook.kind == KernelKind::Unknown);
    let alien = is_foreign.then(|| vec![Expression::Unknown { name: "a hook with another type or policy".into() }]);
    let rules = alien.into_iter().chain(chain.rules.iter().map(|rule| rule.expressions.clone()));
    machine::Chain { base, rules: rules.map(|expressions| Rule { handle: None, expressions }).collect() }
}

/// A chain that refuses has the name of its reason.
fn reason(family: Family, met: &Met) -> Option<Reason> {
    let place = |refusal| chain_place(&table_name(family), &refusal_name(refusal));
    Refusal::ALL.into_iter().find(|refusal| *met.place == place(*refusal)).map(Refusal::reason)
}

fn step(met: &Met) -> Step {
    Step::new(&*met.place, &*met.content)
}

/// An element that was found, in the words of its set.
fn describe(name: &str, family: Family, element: &Element) -> Option<Met> {
    let set = SetName::from_name(name)?;
    let (key, value) = decode(set, family, element.clone());
    let kind = if set.data() == Data::None { "set" } else { "map" };
    Some(Met::new(format!("{kind} {name}: {key}"), content(&value)))
}

fn content(value: &Value) -> String {
    match value {
        Value::Verdict(verdict) => verdict_text(verdict),
        Value::Frontend(frontend) => match &frontend.comment {
            Some(comment) => format!("{} ({comment})", frontend.dispatch_key),
            None => frontend.dispatch_key.to_string(),
        },
        Value::Endpoint(address, port) => SocketAddr::new(*address, *port).to_string(),
        _ => "is in the set".into(),
    }
}
