//! What a node has even without Services: the chains that all Services share, and the jumps that lead to them.

use std::net::Ipv4Addr;

use portolan_model::{Family, IpNet};
use portolan_plan::{FamilyPlan, NodePortMatch};

use super::Iptables;
use super::names::{
    CANARY, CLUSTER_IPS, EXTERNAL_SERVICES, FORWARD, MARK_MASQUERADE, NODE_PORTS, POSTROUTING, PROXY_FIREWALL,
    REFUSED_NODE_PORTS, SERVICES,
};
use super::objects::{Key, Place, Table, Value};
use super::rule::{Rule, RuleBuilder, rule};

pub(super) type Object = (Key, Value);

/// Chains of single rules, by table.
pub(super) const LISTS: [(Table, &str); 8] = [
    (Table::Nat, SERVICES),
    (Table::Nat, NODE_PORTS),
    (Table::Filter, SERVICES),
    (Table::Filter, EXTERNAL_SERVICES),
    (Table::Filter, PROXY_FIREWALL),
    (Table::Filter, NODE_PORTS),
    (Table::Filter, CLUSTER_IPS),
    (Table::Filter, REFUSED_NODE_PORTS),
];

const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const HEALTH_CHECKS: &str = "kubernetes health check service ports";
const BALANCER_FIREWALL: &str = "kubernetes load balancer firewall";
const LAST_RULE: &str = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";

/// From where, to where, whether for new connections only, and why. In the order of the chain. kube-proxy does not refuse
/// what the node itself sends to external addresses; the plan does.
const JUMPS: [(Table, &str, &str, bool, &str); 13] = [
    (Table::Filter, "INPUT", PROXY_FIREWALL, true, BALANCER_FIREWALL),
    (Table::Filter, "INPUT", NODE_PORTS, false, HEALTH_CHECKS),
    (Table::Filter, "INPUT", EXTERNAL_SERVICES, true, EXTERNAL_PORTALS),
    (Table::Filter, "FORWARD", PROXY_FIREWALL, true, BALANCER_FIREWALL),
    (Table::Filter, "FORWARD", FORWARD, false, "kubernetes forwarding rules"),
    (Table::Filter, "FORWARD", SERVICES, true, PORTALS),
    (Table::Filter, "FORWARD", EXTERNAL_SERVICES, true, EXTERNAL_PORTALS),
    (Table::Filter, "OUTPUT", PROXY_FIREWALL, true, BALANCER_FIREWALL),
    (Table::Filter, "OUTPUT", SERVICES, true, PORTALS),
    (Table::Filter, "OUTPUT", EXTERNAL_SERVICES, true, EXTERNAL_PORTALS),
    (Table::Nat, "PREROUTING", SERVICES, false, PORTALS),
    (Table::Nat, "OUTPUT", SERVICES, false, PORTALS),
    (Table::Nat, "POSTROUTING", POSTROUTING, false, "kubernetes postrouting rules"),
];

pub(super) fn node(mode: &Iptables, family: Family, plan: &FamilyPlan) -> Vec<Object> {
    let mut objects: Vec<Object> = Table::ALL.map(|table| chain(family, table, CANARY, [])).into();
    objects.extend(mark_chains(mode, family));
    objects.push(chain(family, Table::Filter, FORWARD, forward_rules(mode)));
    for (table, name) in LISTS {
        let place = Place::new(family, table, name);
        objects.push((Key::List(place), Value::rules(tail(family, plan, table, name))));
    }
    objects.extend(jumps(family));
    objects
}

fn chain(family: Family, table: Table, name: &str, rules: impl IntoIterator<Item = Rule>) -> Object {
    (Key::Chain(Place::new(family, table, name)), Value::rules(rules))
}

pub(super) fn jumps(family: Family) -> impl Iterator<Item = Object> {
    (0..).zip(JUMPS).map(move |(position, (table, from, to, only_new, comment))| {
        let builder = if only_new { rule().new_connections() } else { rule() };
        (Key::Jump(Place::new(family, table, from), position, builder.comment(comment).jump(to)), Value::Present)
    })
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

/// What is invalid to connection tracking would reach a client with the endpoint's address, and end its connection.
fn forward_rules(mode: &Iptables) -> Vec<Rule> {
    let mark = mode.mark;
    let invalid = rule().words("-m conntrack --ctstate INVALID").jump("DROP");
    let marked = rule().comment("kubernetes forwarding rules").words(&format!("-m mark --mark {mark:#x}/{mark:#x}"));
    let established =
        rule().comment("kubernetes forwarding conntrack rule").words("-m conntrack --ctstate RELATED,ESTABLISHED");
    let invalid = mode.drops_invalid.then_some(invalid);
    invalid.into_iter().chain([marked.jump("ACCEPT"), established.jump("ACCEPT")]).collect()
}

/// Where packets from 127.0.0.1 may leave the machine, others' packets to it could come in, too. kube-proxy has this rule
/// in `KUBE-FIREWALL`, which is kubelet's as well, so that neither can tell when it may go.
fn loopback_guard() -> Rule {
    let loopback = loopback(Family::V4);
    rule()
        .source_not(loopback)
        .destination(loopback)
        .comment("block incoming localnet connections")
        .words("-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT")
        .jump("DROP")
}

/// The rules at the end of a list.
fn tail(family: Family, plan: &FamilyPlan, table: Table, name: &str) -> Vec<Rule> {
    match (table, name) {
        (Table::Nat, SERVICES) => {
            to_node_ports(family, plan).map(|rule| rule.comment_and_jump(LAST_RULE, NODE_PORTS)).collect()
        }
        (Table::Filter, EXTERNAL_SERVICES) => {
            let comment = "kubernetes service nodeports that are refused";
            to_node_ports(family, plan).map(|rule| rule.comment_and_jump(comment, REFUSED_NODE_PORTS)).collect()
        }
        (Table::Filter, SERVICES) => to_cluster_ips(plan),
        (Table::Filter, CLUSTER_IPS) => unallocated(plan),
        (Table::Filter, PROXY_FIREWALL) if plan.loopback_node_ports => vec![loopback_guard()],
        _ => Vec::new(),
    }
}

/// A match on the node's addresses, still without its comment.
struct ToNode {
    builder: RuleBuilder,
    any_local: bool,
}

impl ToNode {
    fn comment_and_jump(self, comment: &str, chain: &str) -> Rule {
        let builder = self.builder.comment(comment);
        let builder = if self.any_local { builder.sent_to_node() } else { builder };
        builder.jump(chain)
    }
}

fn to_node_ports(family: Family, plan: &FamilyPlan) -> Box<dyn Iterator<Item = ToNode> + '_> {
    let one = |address: std::net::IpAddr| ToNode { builder: rule().destination(address.into()), any_local: false };
    match &plan.node_ports {
        NodePortMatch::AnyLocal => {
            let builder = if plan.loopback_node_ports { rule() } else { rule().destination_not(loopback(family)) };
            Box::new(std::iter::once(ToNode { builder, any_local: true }))
        }
        NodePortMatch::Only(addresses) => {
            let own = addresses.iter().copied().filter(move |address| Family::of(*address) == family);
            let loopback = plan.loopback_node_ports.then_some(Ipv4Addr::LOCALHOST.into());
            Box::new(own.chain(loopback).map(one))
        }
    }
}

/// What is still on its way to an address of Services was not translated. Where the ranges of such addresses are not
/// known, all packets have to be held against all of them.
fn to_cluster_ips(plan: &FamilyPlan) -> Vec<Rule> {
    let comment = "kubernetes service addresses";
    match plan.service_ranges.is_empty() {
        true => vec![rule().comment(comment).jump(CLUSTER_IPS)],
        false => {
            plan.service_ranges.iter().map(|it| rule().destination(*it).comment(comment).jump(CLUSTER_IPS)).collect()
        }
    }
}

fn unallocated(plan: &FamilyPlan) -> Vec<Rule> {
    let comment = "kubernetes service address that no service has";
    plan.service_ranges.iter().map(|range| rule().destination(*range).comment(comment).jump("DROP")).collect()
}

pub(super) fn loopback(family: Family) -> IpNet {
    let text = if family == Family::V4 { "127.0.0.0/8" } else { "::1/128" };
    text.parse().expect("a constant range is well formed")
}

/// Whether a rule of this list is one of those at its end.
pub(super) fn is_tail(table: Table, list: &str, rule: &str) -> bool {
    match (table, list) {
        (Table::Nat, SERVICES) => rule.ends_with(NODE_PORTS),
        (Table::Filter, EXTERNAL_SERVICES) => rule.ends_with(REFUSED_NODE_PORTS),
        (Table::Filter, SERVICES) => rule.ends_with(CLUSTER_IPS),
        (Table::Filter, CLUSTER_IPS) => rule.ends_with("DROP"),
        (Table::Filter, PROXY_FIREWALL) => *rule == *loopback_guard(),
        _ => false,
    }
}

/// The chains of this mode, but for those of single Services.
pub(super) fn is_static(table: Table, chain: &str) -> bool {
    let others: &[&str] = match table {
        Table::Mangle => &[CANARY],
        Table::Filter => &[CANARY, FORWARD],
        Table::Nat => &[CANARY, POSTROUTING, MARK_MASQUERADE],
    };
    others.contains(&chain) || is_list(table, chain)
}

pub(super) fn is_list(table: Table, chain: &str) -> bool {
    LISTS.contains(&(table, chain))
}
