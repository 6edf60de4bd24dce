//! The chains that every node has, whatever its Services.

use std::sync::Arc;

use portolan_kernel::nftables::{ChainKind, HookPoint};
use portolan_model::{Family, IpNet};
use portolan_plan::{FamilyPlan, NodePortMatch, Reason, Refusal};

use super::Nftables;
use super::fields::{Field, NODE_PORT, VIP};
use super::objects::{Named, base, regular};
use super::routes::{refusal_name, standing_chains};
use super::rules::{Rule, RuleBuilder, rule};
use super::sets::SetName;

pub(super) const DISPATCH: &str = "dispatch";

/// `dstnat` and `srcnat` by name.
const TRANSLATE: i32 = -100;
/// `raw` by name: before anything is translated back.
const GUARD: i32 = -300;
const MASQUERADE: i32 = 100;
const COUNT_PRIORITY: i32 = 0;

pub(super) fn node_chains(family: Family, plan: &FamilyPlan, mode: &Nftables) -> Vec<Named> {
    let mut chains: Vec<Named> = Refusal::ALL.map(|refusal| refusal_chain(family, refusal)).into();
    chains.push((DISPATCH.into(), regular(dispatch_rules(family, plan))));
    chains.extend(standing_chains(family));
    for (name, point) in [("nat-prerouting", HookPoint::Prerouting), ("nat-output", HookPoint::Output)] {
        let rules = vec![rule(family).jump(&DISPATCH.into())];
        chains.push((name.into(), base(ChainKind::Nat, point, TRANSLATE, rules)));
    }
    let mut rules = masquerade_rules(family, mode.mark);
    if mode.counts_traffic {
        rules.insert(0, count_connection(family));
        chains.extend(counting_chains(family));
    }
    chains.extend(plan.loopback_node_ports.then(|| loopback_guard(family)));
    chains.push(("nat-postrouting".into(), base(ChainKind::Nat, HookPoint::Postrouting, MASQUERADE, rules)));
    chains
}

/// Finds the destination: a frontend, a node port, a Service's address without such a port, or none of these.
///
/// The drops affect only packets that arrive during a change, when a frontend has its old dispatch key
/// and the map `ways` is the new one already: as in the pool chains, the client's next packet finds the new state.
fn dispatch_rules(family: Family, plan: &FamilyPlan) -> Vec<Rule> {
    let mut rules = vec![
        rule(family).dispatch_by(VIP, SetName::Services),
        to_node_port(family, plan).dispatch_by(NODE_PORT, SetName::NodePorts),
        rule(family).has_dispatch_key(VIP, SetName::Services).drop(),
        to_node_port(family, plan).has_dispatch_key(NODE_PORT, SetName::NodePorts).drop(),
        rule(family)
            .member(&[Field::Destination], SetName::ClusterIps)
            .go_to(&refusal_name(Refusal::Reject(Reason::UnknownPort))),
    ];
    let unallocated = refusal_name(Refusal::Drop(Reason::UnallocatedAddress));
    rules.extend(plan.service_ranges.iter().map(|range| rule(family).destination_in(range).go_to(&unallocated)));
    rules
}

fn to_node_port(family: Family, plan: &FamilyPlan) -> RuleBuilder {
    match plan.node_ports {
        NodePortMatch::AnyLocal if plan.loopback_node_ports => rule(family).destination_is_local(),
        NodePortMatch::AnyLocal => rule(family).destination_is_local().destination_not_in(&loopback(family)),
        NodePortMatch::Only(_) => rule(family).member(&[Field::Destination], SetName::NodePortAddresses),
    }
}

/// Where packets from 127.0.0.1 may leave the node (`route_localnet`), packets to it could come in, too. They are dropped.
fn loopback_guard(family: Family) -> Named {
    let intruder = rule(family).not_looped_back().destination_in(&loopback(family)).drop();
    ("guard-loopback".into(), base(ChainKind::Filter, HookPoint::Prerouting, GUARD, vec![intruder]))
}

fn loopback(family: Family) -> IpNet {
    let text = if family == Family::V4 { "127.0.0.0/8" } else { "::1/128" };
    text.parse().expect("a constant range is well formed")
}

fn masquerade_rules(family: Family, mark: u32) -> Vec<Rule> {
    vec![
        rule(family).take_mark(mark).masquerade(),
        rule(family).translated().member(&[Field::Source, Field::Destination], SetName::Hairpins).masquerade(),
    ]
}

/// Each refusal has a chain of its own, so that a listing and a trace show the reason.
fn refusal_chain(family: Family, refusal: Refusal) -> Named {
    let last = match refusal {
        Refusal::Reject(_) => rule(family).counter().reject(),
        Refusal::Drop(_) => rule(family).counter().drop(),
    };
    (refusal_name(refusal), regular(vec![last]))
}

/// NAT hooks see the first packet of a connection only, and after translation both ends are known.
fn count_connection(family: Family) -> Rule {
    rule(family).translated().count_in(SetName::Connections)
}

/// Every packet of a translated connection is counted once: where it leaves the node, or where it is delivered.
fn counting_chains(family: Family) -> Vec<Named> {
    let count: Arc<str> = "count".into();
    let directions =
        vec![rule(family).requests().count_in(SetName::Requests), rule(family).replies().count_in(SetName::Replies)];
    let leaving = vec![rule(family).translated().jump(&count)];
    let arriving = vec![rule(family).not_looped_back().translated().jump(&count)];
    let connection = vec![count_connection(family)];
    vec![
        ("nat-input".into(), base(ChainKind::Nat, HookPoint::Input, MASQUERADE, connection)),
        ("count-postrouting".into(), base(ChainKind::Filter, HookPoint::Postrouting, COUNT_PRIORITY, leaving)),
        ("count-input".into(), base(ChainKind::Filter, HookPoint::Input, COUNT_PRIORITY, arriving)),
        (count, regular(directions)),
    ]
}
