//! Refusals in the filter table: packets that should have been translated and were not. Modes that translate in the nat
//! table share them.

use std::net::IpAddr;

use portolan_model::{Family, IpNet, Protocol};
use portolan_plan::{
    FamilyPlan, Frontend, FrontendAddress, FrontendKind, Pool, Reason, Refusal, Routes, ServicePlan, Verdict,
};

use super::names::{
    CLUSTER_IPS, EXTERNAL_SERVICES, Kind, NODE_PORTS, PROXY_FIREWALL, REFUSED_NODE_PORTS, SERVICES, service_chain,
};
use super::node_ports::{loopback, to_node_ports};
use super::objects::{Key, Place, Table, Value};
use super::rule::{Rule, RuleBuilder, rule};
use super::{Jump, Object};

/// Chains of independent rules.
pub(crate) const LISTS: [(Table, &str); 6] = [
    (Table::Filter, SERVICES),
    (Table::Filter, EXTERNAL_SERVICES),
    (Table::Filter, PROXY_FIREWALL),
    (Table::Filter, NODE_PORTS),
    (Table::Filter, CLUSTER_IPS),
    (Table::Filter, REFUSED_NODE_PORTS),
];

pub(crate) const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const HEALTH_CHECKS: &str = "kubernetes health check service ports";
const BALANCER_FIREWALL: &str = "kubernetes load balancer firewall";

const fn jump(from: &'static str, to: &'static str, only_new: bool, comment: &'static str) -> Jump {
    Jump { table: Table::Filter, from, to, only_new, comment }
}

/// Unlike kube-proxy, the plan also refuses what the node itself sends to external addresses.
pub(crate) const INPUT_JUMPS: [Jump; 3] = [
    jump("INPUT", PROXY_FIREWALL, true, BALANCER_FIREWALL),
    jump("INPUT", NODE_PORTS, false, HEALTH_CHECKS),
    jump("INPUT", EXTERNAL_SERVICES, true, EXTERNAL_PORTALS),
];
/// The first jump for forwarded packets; a mode may have its own jump between this one and the rest.
pub(crate) const FORWARD_FIREWALL: Jump = jump("FORWARD", PROXY_FIREWALL, true, BALANCER_FIREWALL);
pub(crate) const FORWARD_JUMPS: [Jump; 2] =
    [jump("FORWARD", SERVICES, true, PORTALS), jump("FORWARD", EXTERNAL_SERVICES, true, EXTERNAL_PORTALS)];
pub(crate) const OUTPUT_JUMPS: [Jump; 3] = [
    jump("OUTPUT", PROXY_FIREWALL, true, BALANCER_FIREWALL),
    jump("OUTPUT", SERVICES, true, PORTALS),
    jump("OUTPUT", EXTERNAL_SERVICES, true, EXTERNAL_PORTALS),
];

/// The rules at the end of a list of the filter table. The mark is that of packets to Service addresses which the nat table
/// has not translated, in a mode that sets one.
pub(crate) fn tail(family: Family, plan: &FamilyPlan, list: &str, mark: Option<u32>) -> Vec<Rule> {
    match list {
        EXTERNAL_SERVICES => {
            to_node_ports(family, plan, "kubernetes service nodeports that are refused", REFUSED_NODE_PORTS)
        }
        SERVICES => to_cluster_ips(plan, mark),
        CLUSTER_IPS => unallocated(plan),
        PROXY_FIREWALL => {
            let guard = plan.loopback_node_ports.then(loopback_guard);
            guard.into_iter().chain(mark.into_iter().flat_map(|mark| to_services(plan, mark))).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn is_tail(list: &str, rule: &str) -> bool {
    match list {
        EXTERNAL_SERVICES => rule.ends_with(REFUSED_NODE_PORTS),
        SERVICES => rule.ends_with(CLUSTER_IPS),
        CLUSTER_IPS => rule.ends_with("DROP"),
        PROXY_FIREWALL => *rule == *loopback_guard() || rule.ends_with(SERVICES),
        _ => false,
    }
}

/// Where `route_localnet` lets packets from 127.0.0.1 leave the machine, foreign packets to it could come in, too.
/// kube-proxy has this rule in `KUBE-FIREWALL`, which is also kubelet's, so that neither knows when it can be removed.
fn loopback_guard() -> Rule {
    let loopback = loopback(Family::V4);
    rule()
        .source_not(loopback)
        .destination(loopback)
        .comment("block incoming localnet connections")
        .words("-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT")
        .jump("DROP")
}

/// The comment of rules for packets to Service addresses that the nat table has not translated.
pub(crate) const UNSERVED: &str = "kubernetes service addresses without such a port";

/// `KUBE-FORWARD`, which comes before `KUBE-SERVICES`, would accept a packet with the mark.
fn to_services(plan: &FamilyPlan, mark: u32) -> impl Iterator<Item = Rule> {
    plan.service_ranges.iter().map(move |range| marked(*range, UNSERVED, mark).jump(SERVICES))
}

fn marked(range: IpNet, comment: &str, mark: u32) -> RuleBuilder {
    rule().destination(range).comment(comment).words(&format!("-m mark --mark {mark:#x}/{mark:#x}"))
}

/// A packet that is still addressed to a Service was not translated. Where the Service CIDRs are unknown, all packets
/// are compared with all addresses, and none has the mark.
fn to_cluster_ips(plan: &FamilyPlan, mark: Option<u32>) -> Vec<Rule> {
    let comment = "kubernetes service addresses";
    let to_range = |range: &IpNet| match mark {
        Some(mark) => marked(*range, comment, mark),
        None => rule().destination(*range).comment(comment),
    };
    match plan.service_ranges.is_empty() {
        true => vec![rule().comment(comment).jump(CLUSTER_IPS)],
        false => plan.service_ranges.iter().map(|range| to_range(range).jump(CLUSTER_IPS)).collect(),
    }
}

fn unallocated(plan: &FamilyPlan) -> Vec<Rule> {
    let comment = "kubernetes service address that no service has";
    plan.service_ranges.iter().map(|range| rule().destination(*range).comment(comment).jump("DROP")).collect()
}

/// Everything of a Service port in the filter table.
pub(crate) fn service(service: &ServicePlan) -> Vec<Object> {
    let port = Port { service, name: service.key.to_string() };
    let mut objects: Vec<Object> = service.frontends.iter().flat_map(|frontend| port.refusals(frontend)).collect();
    objects.extend(service.health_check_port.map(|number| port.health_check(number)));
    objects
}

/// A Service address is refused once, whatever the number of its ports.
pub(crate) fn is_shared(key: &Key) -> bool {
    matches!(key, Key::Rule(place, ..) if &*place.chain == CLUSTER_IPS)
}

/// Whether any route to the frontend forwards.
pub(crate) fn forwards(routes: Routes) -> bool {
    [Pool::Cluster, Pool::Local].into_iter().any(|pool| routes.use_pool(pool))
}

struct Port<'a> {
    service: &'a ServicePlan,
    name: String,
}

impl Port<'_> {
    fn family(&self) -> Family {
        self.service.key.family
    }

    fn listed(&self, list: &str, rule: Rule) -> Object {
        (Key::Rule(Place::new(self.family(), Table::Filter, list), rule, 0), Value::Present)
    }

    fn matching(&self, address: IpAddr, port: u16, comment: &str) -> RuleBuilder {
        rule().at_service(address, self.service.protocol(), port, comment)
    }

    /// Load balancers may always reach the health check node port.
    fn health_check(&self, port: u16) -> Object {
        let comment = format!("{} health check node port", self.name);
        let builder = rule().protocol(Protocol::Tcp).comment(&comment).port(Protocol::Tcp, port);
        self.listed(NODE_PORTS, builder.jump("ACCEPT"))
    }

    /// Packets that were not translated are refused, after translation.
    fn refusals(&self, frontend: &Frontend) -> Vec<Object> {
        let mut objects = Vec::new();
        if let (FrontendAddress::Vip(address, port), Some(_)) = (frontend.address, &frontend.sources) {
            objects.extend(self.source_refusal(address, port, frontend));
        }
        objects.extend(refusal(frontend.routes).map(|refusal| self.refusal(frontend, refusal)));
        if let (true, FrontendAddress::Vip(address, _)) = (frontend.kind.owns_address(), frontend.address) {
            let comment = format!("{} has no such port", self.service.key.name.service);
            let rule = rule().destination(IpNet::from(address)).comment(&comment).reject(self.family());
            objects.push(self.listed(CLUSTER_IPS, rule));
        }
        objects
    }

    /// An untranslated packet has a source that is not allowed. Where some allowed packets are not translated, for lack of
    /// endpoints, the sources are matched here.
    fn source_refusal(&self, address: IpAddr, port: u16, frontend: &Frontend) -> Vec<Object> {
        let chain = service_chain(Kind::Firewall, &self.service.key);
        let comment = format!("{} traffic not accepted by {chain}", self.name);
        if refusal(frontend.routes).is_none() {
            return vec![self.listed(PROXY_FIREWALL, self.matching(address, port, &comment).jump("DROP"))];
        }
        let pass = frontend.sources.iter().flatten().map(|range| rule().source(*range).jump("RETURN"));
        let rules = pass.chain([rule().comment(&comment).jump("DROP")]);
        let jump = self.matching(address, port, &format!("{} loadbalancer IP", self.name)).jump(&chain);
        let place = Place::new(self.family(), Table::Filter, chain);
        vec![(Key::Chain(place), Value::rules(rules)), self.listed(PROXY_FIREWALL, jump)]
    }

    fn refusal(&self, frontend: &Frontend, refusal: Refusal) -> Object {
        let comment = format!("{} {}", self.name, words(refusal.reason()));
        let (list, builder) = match frontend.address {
            FrontendAddress::Vip(address, port) => {
                (refusing_list(frontend.kind), self.matching(address, port, &comment))
            }
            FrontendAddress::NodePort(port) => {
                (REFUSED_NODE_PORTS, rule().at_port(self.service.protocol(), port, &comment))
            }
        };
        let rule = match refusal {
            Refusal::Reject(_) => builder.reject(self.family()),
            Refusal::Drop(_) => builder.jump("DROP"),
        };
        self.listed(list, rule)
    }
}

/// How packets are refused that no route translates: the plan refuses them all in the same way.
fn refusal(routes: Routes) -> Option<Refusal> {
    [routes.outside, routes.node, routes.pod].into_iter().find_map(|route| match route.verdict {
        Verdict::Refuse(refusal) => Some(refusal),
        Verdict::Forward(_) => None,
    })
}

fn refusing_list(kind: FrontendKind) -> &'static str {
    if kind == FrontendKind::ClusterIp { SERVICES } else { EXTERNAL_SERVICES }
}

/// A reason, as comments give it.
pub(crate) fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::NoEndpoints => "has no endpoints",
        Reason::NoLocalEndpoints => "has no local endpoints",
        Reason::UnknownPort => "has no such port",
        Reason::SourceNotAllowed => "traffic not accepted by KUBE-FW-",
        Reason::UnallocatedAddress => "kubernetes service address that no service has",
        Reason::UnsupportedProtocol => "has a protocol that userspace mode does not carry",
    }
}
