//! From the plan of a Service port to listeners, and to the rules that lead to them.

use std::net::SocketAddr;

use portolan_model::{Family, IpNet};
use portolan_plan::{
    Frontend, FrontendAddress, FrontendKind, LocalDetector, NodePlan, Pool, Route, ServicePlan, Verdict,
};

use super::chains::{NODE_PORT_CONTAINER, NODE_PORT_HOST, PORTALS_CONTAINER, PORTALS_HOST};
use super::objects::{Key, Listener, Targets, Value};
use super::ports::placeholder;
use crate::tables::rule::{Rule, RuleBuilder, rule};
use crate::tables::{self, Place, Table, refusals};

pub(super) fn service(node: &NodePlan, service: &ServicePlan) -> Vec<(Key, Value)> {
    let port = Port { service, name: service.key.to_string(), node };
    let refusals = refusals::service(service);
    let rules = service.frontends.iter().flat_map(|frontend| port.frontend(frontend));
    let tables = refusals.into_iter().chain(rules).map(|(key, value)| (Key::Table(key), Value::Table(value)));
    tables.chain(port.listeners()).collect()
}

/// One Service port, while it is rendered.
struct Port<'a> {
    service: &'a ServicePlan,
    name: String,
    node: &'a NodePlan,
}

/// The match of one route.
struct Case {
    route: Route,
    source: Source,
}

/// The rules of a list have no order, so each matches its sources by itself.
enum Source {
    Any,
    Range(IpNet),
    Pods(LocalDetector, Option<IpNet>),
    Others(LocalDetector, Option<IpNet>),
}

impl Port<'_> {
    fn family(&self) -> Family {
        self.service.key.family
    }

    fn listeners(&self) -> impl Iterator<Item = (Key, Value)> {
        let is_used = |pool: &Pool| self.service.frontends.iter().any(|frontend| frontend.routes.use_pool(*pool));
        [Pool::Cluster, Pool::Local].into_iter().filter(is_used).map(|pool| {
            let endpoints = self.service.pool(pool).iter().map(|endpoint| endpoint.socket()).collect();
            let Self { service: ServicePlan { affinity_seconds, balance, .. }, .. } = *self;
            let targets = Targets { endpoints, balance: *balance, affinity_seconds: *affinity_seconds };
            (Key::Listener(Listener::new(&self.service.key, pool)), Value::Targets(targets))
        })
    }

    /// Arriving packets are redirected to the listener; the node's own packets are translated to an address of the
    /// node.
    fn frontend(&self, frontend: &Frontend) -> Vec<tables::Object> {
        let (container, host) = match frontend.address {
            FrontendAddress::Vip(..) => (PORTALS_CONTAINER, PORTALS_HOST),
            FrontendAddress::NodePort(_) => (NODE_PORT_CONTAINER, NODE_PORT_HOST),
        };
        let arriving = self.cases(frontend, frontend.routes.outside, true);
        let sent = self.cases(frontend, frontend.routes.node, false);
        let arriving = arriving.filter_map(|case| self.rule(frontend, &case, container, redirect));
        let own = self.node.primary_address(self.family());
        let to_node = |builder, listener: &Listener| match own {
            Some(address) => translate(builder, SocketAddr::new(address, 0), listener),
            None => redirect(builder, listener),
        };
        arriving.chain(sent.filter_map(|case| self.rule(frontend, &case, host, to_node))).collect()
    }

    /// Packets of pods and those of others, by allowed source.
    fn cases(&self, frontend: &Frontend, others: Route, arrives: bool) -> impl Iterator<Item = Case> {
        let pods = frontend.routes.pod;
        let detector = self.node.family(self.family()).pods.as_ref().filter(|it| {
            // The node's own packets have no input interface.
            pods.verdict != others.verdict && (arrives || matches!(it, LocalDetector::Source(_)))
        });
        let sources = match &frontend.sources {
            Some(ranges) => ranges.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let mut cases = Vec::new();
        for range in sources {
            match detector {
                None => cases.push(Case { route: others, source: range.map_or(Source::Any, Source::Range) }),
                Some(detector) => {
                    let of = |route| move |source| Case { route, source };
                    cases.extend(of_pods(detector, range).into_iter().map(of(pods)));
                    cases.extend(of_others(detector, range).into_iter().map(of(others)));
                }
            }
        }
        cases.into_iter()
    }

    /// `None` if the route refuses: untranslated packets are refused in the filter table.
    fn rule(
        &self,
        frontend: &Frontend,
        case: &Case,
        list: &str,
        finish: impl Fn(RuleBuilder, &Listener) -> Rule,
    ) -> Option<tables::Object> {
        let Verdict::Forward(pool) = case.route.verdict else { return None };
        let builder = case.source.narrow(rule());
        let protocol = self.service.protocol();
        let builder = match frontend.address {
            FrontendAddress::Vip(address, port) => {
                builder.at_service(address, protocol, port, &format!("{} {}", self.name, what(frontend.kind)))
            }
            FrontendAddress::NodePort(port) => builder.at_port(protocol, port, &self.name),
        };
        let rule = finish(builder, &Listener::new(&self.service.key, pool));
        let place = Place::new(self.family(), Table::Nat, list);
        Some((tables::Key::Rule(place, rule, 0), tables::Value::Present))
    }
}

fn what(kind: FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => "cluster IP",
        FrontendKind::ExternalIp => "external IP",
        FrontendKind::LoadBalancerIp => "loadbalancer IP",
        FrontendKind::NodePort => "node port",
    }
}

fn redirect(builder: RuleBuilder, listener: &Listener) -> Rule {
    builder.words(&format!("-j REDIRECT --to-ports {}", placeholder(listener))).done()
}

fn translate(builder: RuleBuilder, own: SocketAddr, listener: &Listener) -> Rule {
    let address = own.to_string();
    let address = address.trim_end_matches(":0");
    builder.words(&format!("-j DNAT --to-destination {address}:{}", placeholder(listener))).done()
}

impl Source {
    fn narrow(&self, builder: RuleBuilder) -> RuleBuilder {
        let within = |builder: RuleBuilder, range: &Option<IpNet>| match range {
            Some(range) => builder.source(*range),
            None => builder,
        };
        match self {
            Self::Any => builder,
            Self::Range(range) => builder.source(*range),
            Self::Pods(detector, range) => within(builder.of_pods(detector, true), range),
            Self::Others(detector, range) => within(builder.of_pods(detector, false), range),
        }
    }
}

/// A rule has one match on the source, so two ranges are intersected.
fn of_pods(detector: &LocalDetector, range: Option<IpNet>) -> Vec<Source> {
    match (detector, range) {
        (LocalDetector::Source(pods), Some(range)) if range.contains(pods) => vec![Source::Range(*pods)],
        (LocalDetector::Source(pods), Some(range)) if pods.contains(&range) => vec![Source::Range(range)],
        (LocalDetector::Source(_), Some(_)) => Vec::new(),
        (detector, range) => vec![Source::Pods(detector.clone(), range)],
    }
}

fn of_others(detector: &LocalDetector, range: Option<IpNet>) -> Vec<Source> {
    match (detector, range) {
        (LocalDetector::Source(pods), Some(range)) => without(range, *pods).into_iter().map(Source::Range).collect(),
        (detector, range) => vec![Source::Others(detector.clone(), range)],
    }
}

/// The difference of two ranges, as ranges.
fn without(range: IpNet, hole: IpNet) -> Vec<IpNet> {
    if hole.contains(&range) {
        return Vec::new();
    }
    if !range.contains(&hole) {
        return vec![range];
    }
    let halves = range.subnets(range.prefix_len() + 1).expect("a range that holds a smaller one has two halves");
    halves.flat_map(|half| without(half, hole)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_without_a_part_is_the_rest() {
        let rest = |range: &str, hole: &str| {
            let rest = without(range.parse().unwrap(), hole.parse().unwrap());
            rest.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(rest("10.0.0.0/8", "10.0.0.0/8"), "");
        assert_eq!(rest("10.0.0.0/24", "10.0.0.0/8"), "");
        assert_eq!(rest("10.0.0.0/24", "10.0.1.0/24"), "10.0.0.0/24");
        assert_eq!(rest("10.0.0.0/22", "10.0.1.0/24"), "10.0.0.0/24 10.0.2.0/23");
        assert_eq!(rest("fd00::/62", "fd00::/64"), "fd00:0:0:1::/64 fd00:0:0:2::/63");
    }
}
