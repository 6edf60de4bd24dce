//! What a node has even without Services: the chains that all Services share, and the jumps to them.

use portolan_model::Family;
use portolan_plan::FamilyPlan;

use super::{INVALID_DROPPED, Iptables};
use crate::tables::names::{FORWARD, Kind, MARK_MASQUERADE, NODE_PORTS, POSTROUTING, SERVICES};
use crate::tables::node_ports::to_node_ports;
use crate::tables::refusals::{self, FORWARD_FIREWALL, FORWARD_JUMPS, INPUT_JUMPS, OUTPUT_JUMPS, PORTALS, UNSERVED};
use crate::tables::rule::{Rule, rule};
use crate::tables::{Contents, Jump, Key, Layout, Object, Place, Table, Value};

const FORWARD_JUMP: Jump = Jump {
    table: Table::Filter,
    from: "FORWARD",
    to: FORWARD,
    only_new: false,
    comment: "kubernetes forwarding rules",
};

const fn translation(from: &'static str, to: &'static str, comment: &'static str) -> Jump {
    Jump { table: Table::Nat, from, to, only_new: false, comment }
}

const TRANSLATION_JUMPS: [Jump; 3] = [
    translation("PREROUTING", SERVICES, PORTALS),
    translation("OUTPUT", SERVICES, PORTALS),
    translation("POSTROUTING", POSTROUTING, "kubernetes postrouting rules"),
];

const LAST_RULE: &str = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";

/// The chains of this mode.
pub(crate) fn layout() -> Layout {
    let forward = [FORWARD_FIREWALL, FORWARD_JUMP].into_iter().chain(FORWARD_JUMPS);
    let filter = INPUT_JUMPS.into_iter().chain(forward).chain(OUTPUT_JUMPS);
    let chains_of_services = Kind::ALL.map(|kind| (Table::Nat, kind.prefix()));
    Layout {
        lists: [(Table::Nat, SERVICES), (Table::Nat, NODE_PORTS)].into_iter().chain(refusals::LISTS).collect(),
        fixed: vec![(Table::Filter, FORWARD), (Table::Nat, POSTROUTING), (Table::Nat, MARK_MASQUERADE)],
        prefixes: chains_of_services.into_iter().chain([(Table::Filter, Kind::Firewall.prefix())]).collect(),
        jumps: filter.chain(TRANSLATION_JUMPS).collect(),
        is_tail,
    }
}

fn is_tail(table: Table, list: &str, rule: &str) -> bool {
    match table {
        Table::Nat => list == SERVICES && (rule.ends_with(NODE_PORTS) || rule.ends_with(MARK_MASQUERADE)),
        Table::Filter => refusals::is_tail(list, rule),
        Table::Mangle => false,
    }
}

pub(super) fn node(mode: &Iptables, family: Family, plan: &FamilyPlan) -> Contents {
    let mut contents = layout().frame(family, |table, list| tail(mode, family, plan, table, list));
    contents.extend(mark_chains(mode, family));
    contents.extend([chain(family, Table::Filter, FORWARD, forward_rules(mode))]);
    contents
}

fn tail(mode: &Iptables, family: Family, plan: &FamilyPlan, table: Table, list: &str) -> Vec<Rule> {
    match (table, list) {
        (Table::Filter, _) => refusals::tail(family, plan, list, Some(mode.mark)),
        (Table::Nat, SERVICES) => {
            let node_ports = to_node_ports(family, plan, LAST_RULE, NODE_PORTS);
            unserved(plan).chain(node_ports).collect()
        }
        _ => Vec::new(),
    }
}

/// A packet to a Service address that no rule before has translated. The filter table refuses it only with this mark: while
/// another process has removed the rules of this chain, it refuses nothing, and clients retransmit until the rules are back.
fn unserved(plan: &FamilyPlan) -> impl Iterator<Item = Rule> {
    plan.service_ranges.iter().map(|range| rule().destination(*range).comment(UNSERVED).jump(MARK_MASQUERADE))
}

fn chain(family: Family, table: Table, name: &str, rules: impl IntoIterator<Item = Rule>) -> Object {
    (Key::Chain(Place::new(family, table, name)), Value::rules(rules))
}

fn mark_chains(mode: &Iptables, family: Family) -> [Object; 2] {
    let mark = mode.mark;
    let leave = [
        rule().words(&format!("-m mark ! --mark {mark:#x}/{mark:#x}")).jump("RETURN"),
        rule().words(&format!("-j MARK --set-xmark {mark:#x}/0x0")).done(),
        rule().comment("kubernetes service traffic requiring SNAT").words("-j MASQUERADE --random-fully").done(),
    ];
    let set = rule().words(&format!("-j MARK --set-xmark {mark:#x}/{mark:#x}")).done();
    [chain(family, Table::Nat, POSTROUTING, leave), chain(family, Table::Nat, MARK_MASQUERADE, [set])]
}

/// A packet that connection tracking calls invalid would reach the client with the endpoint's address as its source,
/// and reset the connection.
fn forward_rules(mode: &Iptables) -> Vec<Rule> {
    let mark = mode.mark;
    let invalid = rule().words("-m conntrack --ctstate INVALID");
    let invalid = if mode.counts { invalid.counted(INVALID_DROPPED) } else { invalid }.jump("DROP");
    let marked = rule().comment("kubernetes forwarding rules").words(&format!("-m mark --mark {mark:#x}/{mark:#x}"));
    let established =
        rule().comment("kubernetes forwarding conntrack rule").words("-m conntrack --ctstate RELATED,ESTABLISHED");
    let invalid = mode.drops_invalid.then_some(invalid);
    invalid.into_iter().chain([marked.jump("ACCEPT"), established.jump("ACCEPT")]).collect()
}
