//! What the kernel and its programs print: netlink messages, and the text of `iptables-save`.

use std::sync::LazyLock;

use portolan_dataplane::iptables::fuzz::read_saved;
use portolan_dataplane::iptables::{Iptables, listing};
use portolan_dataplane::tables::Key;
use portolan_dataplane::walk::NoRules;
use portolan_dataplane::{Dataplane, Objects};
use portolan_model::Family;
use portolan_plan::{Plan, plan};
use portolan_shadow::{PeerRules, compare};

use crate::cluster::{config, example, packets};

pub(crate) fn nf_tables(bytes: &[u8]) {
    portolan_kernel::fuzz::decode_nf_tables(bytes);
}

/// One Service: each of its frontends is compared for several clients, and many inputs are to be run.
static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let mut facts = example();
    let first = facts.services.keys().next().cloned();
    facts.services = facts.services.into_iter().filter(|(name, _)| Some(name) == first.as_ref()).collect();
    plan(&facts, &Plan::default(), &config())
});

/// Rules of kube-proxy are compared with a plan. Rules of this mode are read, listed, and read again.
pub(crate) fn iptables_save(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (ipv4, ipv6) = text.split_once("# ip6tables-save").unwrap_or((&text, ""));
    compare(&PLAN, &PeerRules::from_iptables(ipv4, ipv6));
    let (mode, objects) = (Iptables::new(14), both(ipv4, ipv6));
    let listed = listing(&objects);
    let (ipv4, ipv6) = listed.split_once("# ip6tables-save").expect("both families are listed");
    let again = both(ipv4, ipv6);
    // Jumps from built-in chains are read only where those are declared, and a rule next to the tail of a list becomes part
    // of it.
    let is_listed = |key: &&Key| matches!(key, Key::Chain(_));
    assert!(objects.0.keys().filter(is_listed).all(|key| again.0.contains_key(key)), "{listed}");
    let tracer = mode.tracer(&objects, &NoRules, &PLAN.node);
    packets().iter().take(3).for_each(|packet| drop(tracer(packet)));
}

fn both(ipv4: &str, ipv6: &str) -> Objects<Iptables> {
    let mut objects = read_saved(Family::V4, ipv4);
    objects.0.extend(read_saved(Family::V6, ipv6).0);
    objects
}
