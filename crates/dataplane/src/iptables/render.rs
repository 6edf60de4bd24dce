//! From the plan of a Service port to chains and rules.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Family, Protocol};
use portolan_plan::{
    Endpoint, Frontend, FrontendAddress, FrontendKind, LocalDetector, NodePlan, Pool, Route, Routes, Selection,
    ServicePlan, Verdict,
};

use super::{Iptables, LOOPBACK_ACCEPTED};
use crate::tables::names::{
    Kind, MARK_MASQUERADE, NODE_PORTS, PROXY_FIREWALL, SERVICES, endpoint_chain, service_chain,
};
use crate::tables::node_ports::loopback;
use crate::tables::refusals::{self, forwards};
use crate::tables::rule::{Rule, RuleBuilder, rule};
use crate::tables::{Key, Object, Place, Table, Value};

pub(super) fn service(mode: &Iptables, node: &NodePlan, service: &ServicePlan) -> Vec<Object> {
    Port {
        counts_loopback: mode.counts && node.family(service.key.family).loopback_node_ports,
        service,
        name: service.key.to_string(),
        pods: node.family(service.key.family).pods.as_ref(),
        node,
    }
    .objects()
}

/// One Service port, while it is rendered.
struct Port<'a> {
    service: &'a ServicePlan,
    name: String,
    pods: Option<&'a LocalDetector>,
    node: &'a NodePlan,
    /// Whether connections to node ports at the loopback address are counted.
    counts_loopback: bool,
}

impl Port<'_> {
    fn objects(&self) -> Vec<Object> {
        let mut objects = refusals::service(self.service);
        for frontend in &self.service.frontends {
            self.dispatch(frontend, &mut objects);
        }
        for pool in [Pool::Cluster, Pool::Local] {
            if self.service.frontends.iter().any(|frontend| frontend.routes.use_pool(pool)) {
                objects.push(self.pool_chain(pool));
                objects.extend(self.service.pool(pool).iter().map(|endpoint| self.endpoint_chain(endpoint)));
            }
        }
        objects.extend(self.external().map(|frontend| self.external_chain(frontend.routes)));
        objects.extend(self.guarded().next().map(|frontend| self.firewall_chain(frontend)));
        objects
    }

    fn family(&self) -> Family {
        self.service.key.family
    }

    fn protocol(&self) -> Protocol {
        self.service.protocol()
    }

    fn place(&self, chain: impl Into<Arc<str>>) -> Place {
        Place::new(self.family(), Table::Nat, chain)
    }

    fn listed(&self, list: &str, rule: Rule) -> Object {
        (Key::Rule(self.place(list), rule, 0), Value::Present)
    }

    fn chain(&self, name: Arc<str>, rules: impl IntoIterator<Item = Rule>) -> Object {
        (Key::Chain(self.place(name)), Value::rules(rules))
    }

    fn own_chain(&self, kind: Kind) -> Arc<str> {
        service_chain(kind, &self.service.key)
    }

    fn pool_name(&self, pool: Pool) -> Arc<str> {
        self.own_chain(if pool == Pool::Cluster { Kind::Cluster } else { Kind::Local })
    }

    /// The frontend whose routes the external chain implements: all external frontends have the same routes.
    fn external(&self) -> Option<&Frontend> {
        let is_external = |it: &&Frontend| it.kind != FrontendKind::ClusterIp && forwards(it.routes);
        self.service.frontends.iter().find(is_external)
    }

    fn guarded(&self) -> impl Iterator<Item = &Frontend> {
        self.service.frontends.iter().filter(|frontend| frontend.sources.is_some() && forwards(frontend.routes))
    }

    /// The match, with the comment where `iptables-save` prints it.
    fn matching(&self, address: IpAddr, port: u16, comment: &str) -> RuleBuilder {
        rule().at_service(address, self.protocol(), port, comment)
    }

    /// The target of packets to the frontend, if any route forwards.
    fn dispatch(&self, frontend: &Frontend, objects: &mut Vec<Object>) {
        if !forwards(frontend.routes) {
            return;
        }
        let name = &self.name;
        let (chain, what) = match frontend.kind {
            FrontendKind::ClusterIp => (self.internal_chain(frontend.routes), "cluster IP"),
            FrontendKind::ExternalIp => (self.own_chain(Kind::External), "external IP"),
            FrontendKind::LoadBalancerIp if frontend.sources.is_some() => {
                (self.own_chain(Kind::Firewall), "loadbalancer IP")
            }
            FrontendKind::LoadBalancerIp => (self.own_chain(Kind::External), "loadbalancer IP"),
            FrontendKind::NodePort => (self.own_chain(Kind::External), ""),
        };
        objects.extend(self.count_loopback(frontend, &chain));
        objects.push(match frontend.address {
            FrontendAddress::Vip(address, port) => {
                let builder = self.matching(address, port, &format!("{name} {what}"));
                self.listed(SERVICES, builder.jump(&chain))
            }
            FrontendAddress::NodePort(port) => {
                let builder = rule().at_port(self.protocol(), port, name);
                self.listed(NODE_PORTS, builder.jump(&chain))
            }
        });
    }

    /// Stands before the rule that jumps to the same chain without counting.
    fn count_loopback(&self, frontend: &Frontend, chain: &str) -> Option<Object> {
        let FrontendAddress::NodePort(port) = frontend.address else { return None };
        let builder = rule().destination(loopback(self.family())).at_port(self.protocol(), port, &self.name);
        self.counts_loopback.then(|| self.listed(NODE_PORTS, builder.counted(LOOPBACK_ACCEPTED).jump(chain)))
    }

    fn internal_chain(&self, routes: Routes) -> Arc<str> {
        let pool = [Pool::Cluster, Pool::Local].into_iter().find(|pool| routes.use_pool(*pool));
        self.pool_name(pool.unwrap_or(Pool::Cluster))
    }

    /// The ClusterIP is masqueraded in its own pool chain; chains of other frontends have marked the packet before they
    /// jump here.
    fn pool_chain(&self, pool: Pool) -> Object {
        let internal = self.service.frontends.iter().find(|it| it.kind == FrontendKind::ClusterIp);
        let masquerade = internal.filter(|it| it.routes.use_pool(pool)).and_then(|it| self.masquerade_cluster_ip(it));
        let mut endpoints = self.service.weighted(pool);
        endpoints.sort_by_cached_key(|(endpoint, _)| endpoint.socket().to_string());
        let recalls = endpoints.iter().filter_map(|(endpoint, _)| self.recall(endpoint));
        let slots = self.slots(pool);
        let draws = slots.iter().enumerate().map(|(index, endpoint)| self.draw(endpoint, slots.len() - index));
        self.chain(self.pool_name(pool), masquerade.into_iter().chain(recalls).chain(draws))
    }

    /// In kube-proxy's order, which is that of the text, unless the order matters.
    fn slots(&self, pool: Pool) -> Vec<&Endpoint> {
        let mut slots: Vec<&Endpoint> = self.service.pool(pool).iter().collect();
        if self.service.balance.selection() != Selection::InTurn {
            slots.sort_by_cached_key(|endpoint| endpoint.socket().to_string());
        }
        slots
    }

    fn masquerade_cluster_ip(&self, frontend: &Frontend) -> Option<Rule> {
        let FrontendAddress::Vip(address, port) = frontend.address else { return None };
        let Routes { pod, node, outside } = frontend.routes;
        let builder = self.matching(address, port, &format!("{} cluster IP", self.name));
        let builder = match (pod.masquerade, node.masquerade || outside.masquerade) {
            (true, _) => builder,
            (false, true) => builder.of_pods(self.pods?, false),
            (false, false) => return None,
        };
        Some(builder.jump(MARK_MASQUERADE))
    }

    /// A client that was sent to this endpoint before is sent to it again.
    fn recall(&self, endpoint: &Endpoint) -> Option<Rule> {
        let seconds = self.service.affinity_seconds?;
        let chain = endpoint_chain(&self.service.key, endpoint.socket());
        let comment = format!("{} -> {}", self.name, endpoint.socket());
        Some(self.commented(rule(), &comment).remembered(self.family(), &chain, seconds).jump(&chain))
    }

    /// Endpoint rules are most of the rules, and the kernel processes each comment on every change.
    fn commented(&self, builder: RuleBuilder, comment: &str) -> RuleBuilder {
        if self.node.is_large { builder } else { builder.comment(comment) }
    }

    fn draw(&self, endpoint: &Endpoint, remaining: usize) -> Rule {
        let chain = endpoint_chain(&self.service.key, endpoint.socket());
        let builder = self.commented(rule(), &format!("{} -> {}", self.name, endpoint.socket()));
        match self.service.balance.selection() {
            _ if remaining == 1 => builder.jump(&chain),
            // Of those that the rules before have left, so that each slot has its turn.
            Selection::InTurn => builder.every(remaining).jump(&chain),
            _ => builder.one_in(remaining).jump(&chain),
        }
    }

    /// A pod that reaches itself through its Service would reply to itself directly if its source address were kept.
    fn endpoint_chain(&self, endpoint: &Endpoint) -> Object {
        let name = endpoint_chain(&self.service.key, endpoint.socket());
        let hairpin = self.commented(rule().source(endpoint.address.into()), &self.name).jump(MARK_MASQUERADE);
        let builder = self.commented(rule().protocol(self.protocol()), &self.name);
        let builder = match self.service.affinity_seconds {
            Some(_) => builder.remember(self.family(), &name),
            None => builder,
        };
        let translate = builder.translate(self.protocol(), endpoint.socket());
        self.chain(name, [hairpin, translate])
    }

    /// Pods first, then the node, then all others, in the order of the plan's origins.
    fn external_chain(&self, routes: Routes) -> Object {
        let Routes { pod, node, outside } = routes;
        let name = &self.name;
        let mut rules = Vec::new();
        if pod == node && node == outside {
            let comment = format!("masquerade traffic for {name} external destinations");
            rules.extend(outside.masquerade.then(|| rule().comment(&comment).jump(MARK_MASQUERADE)));
        }
        if let Some(pods) = self.pods.filter(|_| pod != outside) {
            let comment = format!("pod traffic for {name} external destinations");
            rules.extend(self.route(pod, || rule().of_pods(pods, true), &comment, &comment));
        }
        if node != outside {
            let masquerade = format!("masquerade LOCAL traffic for {name} external destinations");
            let forward = format!("route LOCAL traffic for {name} external destinations");
            rules.extend(self.route_of_node(node, &masquerade, &forward));
        }
        rules.extend(self.target(outside).map(|chain| rule().jump(&chain)));
        self.chain(self.own_chain(Kind::External), rules)
    }

    fn route(&self, route: Route, test: impl Fn() -> RuleBuilder, masquerade: &str, forward: &str) -> Vec<Rule> {
        let Some(chain) = self.target(route) else { return Vec::new() };
        let mark = route.masquerade.then(|| test().comment(masquerade).jump(MARK_MASQUERADE));
        mark.into_iter().chain([test().comment(forward).jump(&chain)]).collect()
    }

    fn route_of_node(&self, route: Route, masquerade: &str, forward: &str) -> Vec<Rule> {
        let Some(chain) = self.target(route) else { return Vec::new() };
        let mark = route.masquerade.then(|| rule().comment(masquerade).sent_by_node().jump(MARK_MASQUERADE));
        mark.into_iter().chain([rule().comment(forward).sent_by_node().jump(&chain)]).collect()
    }

    fn target(&self, route: Route) -> Option<Arc<str>> {
        match route.verdict {
            Verdict::Forward(pool) => Some(self.pool_name(pool)),
            Verdict::Refuse(_) => None,
        }
    }

    /// Allowed sources pass. Other packets continue untranslated, and are dropped for that.
    fn firewall_chain(&self, frontend: &Frontend) -> Object {
        let comment = format!("{} loadbalancer IP", self.name);
        let external = self.own_chain(Kind::External);
        let ranges = frontend.sources.iter().flatten();
        let pass = ranges.map(|range| rule().source(*range).comment(&comment).jump(&external));
        let comment = format!("other traffic to {} will be dropped by {PROXY_FIREWALL}", self.name);
        self.chain(self.own_chain(Kind::Firewall), pass.chain([rule().comment(&comment).done()]))
    }
}
