//! Traces a packet through the objects alone, with every random branch followed.

use portolan_model::Family;
use portolan_plan::{NodePlan, Packet, Reason, Step, Trace};

use super::objects::{Key, Place, Value};
use super::refusals::words;
use super::run::RuleBook;
use crate::fate;
use crate::tracer::EachFamily;
use crate::walk::{Met, Rules, walk};

pub(crate) fn tracer<'a>(
    contents: impl Iterator<Item = (&'a Key, &'a Value)> + Clone + 'a,
    foreign: &'a dyn Rules,
    node: &'a NodePlan,
) -> impl Fn(&Packet) -> Trace + 'a {
    let books = EachFamily::new(move |family| book(contents.clone(), family));
    move |packet| fate::trace(&walk(books.of(packet), foreign, node, packet), reason, step)
}

/// Jumps from the built-in chains to such chains are ours. KUBE-FIREWALL is kubelet's.
pub(crate) fn is_own_chain(chain: &str) -> bool {
    chain.starts_with("KUBE-") && chain != "KUBE-FIREWALL"
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
    // The tail of a list comes after its rules.
    for (key, value) in of_family {
        value.as_rules().iter().for_each(|rule| add(key.place(), rule));
    }
    book
}

pub(crate) fn step(met: &Met) -> Step {
    Step::new(&*met.place, &*met.content)
}

/// From the comment of the rule that refused.
pub(crate) fn reason(met: &Met) -> Option<Reason> {
    Reason::ALL.into_iter().find(|reason| met.content.contains(words(*reason)))
}
