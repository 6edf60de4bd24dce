//! From the plan of a Service port to chains and rules.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Family, IpNet, Protocol};
use portolan_plan::{
    Endpoint, Frontend, FrontendAddress, FrontendKind, LocalDetector, NodePlan, Pool, Reason, Refusal, Route, Routes,
    ServicePlan, Verdict,
};

use super::chains::Object;
use super::names::{
    CLUSTER_IPS, EXTERNAL_SERVICES, Kind, MARK_MASQUERADE, NODE_PORTS, PROXY_FIREWALL, REFUSED_NODE_PORTS, SERVICES,
    endpoint_chain, service_chain,
};
use super::objects::{Key, Place, Table, Value};
use super::rule::{Rule, RuleBuilder, rule};

pub(super) fn service(node: &NodePlan, service: &ServicePlan) -> Vec<Object> {
    Port { service, name: service.key.to_string(), pods: node.family(service.key.family).pods.as_ref() }.objects()
}

/// One Service port, while it is rendered.
struct Port<'a> {
    service: &'a ServicePlan,
    name: String,
    pods: Option<&'a LocalDetector>,
}

impl Port<'_> {
    fn objects(&self) -> Vec<Object> {
        let mut objects = Vec::new();
        for frontend in &self.service.frontends {
            self.dispatch(frontend, &mut objects);
            self.refusals(frontend, &mut objects);
        }
        for pool in [Pool::Cluster, Pool::Local] {
            if self.service.frontends.iter().any(|frontend| frontend.routes.use_pool(pool)) {
                objects.push(self.pool_chain(pool));
                objects.extend(self.service.pool(pool).iter().map(|endpoint| self.endpoint_chain(endpoint)));
            }
        }
        objects.extend(self.external().map(|frontend| self.external_chain(frontend.routes)));
        objects.extend(self.guarded().next().map(|frontend| self.firewall_chain(frontend)));
        objects.extend(self.service.health_check_port.map(|port| self.health_check(port)));
        objects
    }

    fn family(&self) -> Family {
        self.service.key.family
    }

    fn protocol(&self) -> Protocol {
        self.service.protocol()
    }

    fn place(&self, table: Table, chain: impl Into<Arc<str>>) -> Place {
        Place::new(self.family(), table, chain)
    }

    fn listed(&self, table: Table, list: &str, rule: Rule) -> Object {
        (Key::Rule(self.place(table, list), rule, 0), Value::Present)
    }

    fn chain(&self, name: Arc<str>, rules: impl IntoIterator<Item = Rule>) -> Object {
        (Key::Chain(self.place(Table::Nat, name)), Value::rules(rules))
    }

    fn own_chain(&self, kind: Kind) -> Arc<str> {
        service_chain(kind, &self.service.key)
    }

    fn pool_name(&self, pool: Pool) -> Arc<str> {
        self.own_chain(if pool == Pool::Cluster { Kind::Cluster } else { Kind::Local })
    }

    /// The frontend whose routes the chain for everything but the ClusterIP spells: they all have the same.
    fn external(&self) -> Option<&Frontend> {
        let is_external = |it: &&Frontend| it.kind != FrontendKind::ClusterIp && forwards(it.routes);
        self.service.frontends.iter().find(is_external)
    }

    fn guarded(&self) -> impl Iterator<Item = &Frontend> {
        self.service.frontends.iter().filter(|frontend| frontend.sources.is_some() && forwards(frontend.routes))
    }

    /// What is matched, with the comment where `iptables-save` prints it.
    fn matching(&self, address: IpAddr, port: u16, comment: &str) -> RuleBuilder {
        let builder = rule().destination(address.into()).protocol(self.protocol()).comment(comment);
        builder.port(self.protocol(), port)
    }

    /// Where packets to the frontend go, as long as anybody's are forwarded.
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
        objects.push(match frontend.address {
            FrontendAddress::Vip(address, port) => {
                let builder = self.matching(address, port, &format!("{name} {what}"));
                self.listed(Table::Nat, SERVICES, builder.jump(&chain))
            }
            FrontendAddress::NodePort(port) => {
                let builder = rule().protocol(self.protocol()).comment(name).port(self.protocol(), port);
                self.listed(Table::Nat, NODE_PORTS, builder.jump(&chain))
            }
        });
    }

    fn internal_chain(&self, routes: Routes) -> Arc<str> {
        let pool = [Pool::Cluster, Pool::Local].into_iter().find(|pool| routes.use_pool(*pool));
        self.pool_name(pool.unwrap_or(Pool::Cluster))
    }

    /// The ClusterIP is masqueraded in its own pool chain; other frontends that lead there have seen to it before.
    fn pool_chain(&self, pool: Pool) -> Object {
        let internal = self.service.frontends.iter().find(|it| it.kind == FrontendKind::ClusterIp);
        let masquerade = internal.filter(|it| it.routes.use_pool(pool)).and_then(|it| self.masquerade_cluster_ip(it));
        // In kube-proxy's order, which is that of the text.
        let mut endpoints: Vec<&Endpoint> = self.service.pool(pool).iter().collect();
        endpoints.sort_by_cached_key(|endpoint| endpoint.socket().to_string());
        let recalls = endpoints.iter().filter_map(|endpoint| self.recall(endpoint));
        let draws = endpoints.iter().enumerate().map(|(index, endpoint)| self.draw(endpoint, endpoints.len() - index));
        self.chain(self.pool_name(pool), masquerade.into_iter().chain(recalls).chain(draws))
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

    /// A client that was sent to this endpoint before is sent there again.
    fn recall(&self, endpoint: &Endpoint) -> Option<Rule> {
        let seconds = self.service.affinity_seconds?;
        let chain = endpoint_chain(&self.service.key, endpoint.socket());
        let comment = format!("{} -> {}", self.name, endpoint.socket());
        Some(rule().comment(&comment).remembered(self.family(), &chain, seconds).jump(&chain))
    }

    fn draw(&self, endpoint: &Endpoint, remaining: usize) -> Rule {
        let chain = endpoint_chain(&self.service.key, endpoint.socket());
        let builder = rule().comment(&format!("{} -> {}", self.name, endpoint.socket()));
        if remaining > 1 { builder.one_in(remaining).jump(&chain) } else { builder.jump(&chain) }
    }

    /// A pod that reaches itself would answer itself directly, were its own address not replaced.
    fn endpoint_chain(&self, endpoint: &Endpoint) -> Object {
        let name = endpoint_chain(&self.service.key, endpoint.socket());
        let hairpin = rule().source(endpoint.address.into()).comment(&self.name).jump(MARK_MASQUERADE);
        let builder = rule().protocol(self.protocol()).comment(&self.name);
        let builder = match self.service.affinity_seconds {
            Some(_) => builder.remember(self.family(), &name),
            None => builder,
        };
        let translate = builder.translate(self.protocol(), endpoint.socket());
        self.chain(name, [hairpin, translate])
    }

    /// Pods first, then the node, then whoever remains, as the plan's origins are.
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

    /// Sources that may pass. The others go on untranslated, and are dropped for that.
    fn firewall_chain(&self, frontend: &Frontend) -> Object {
        let comment = format!("{} loadbalancer IP", self.name);
        let external = self.own_chain(Kind::External);
        let ranges = frontend.sources.iter().flatten();
        let pass = ranges.map(|range| rule().source(*range).comment(&comment).jump(&external));
        let comment = format!("other traffic to {} will be dropped by {PROXY_FIREWALL}", self.name);
        self.chain(self.own_chain(Kind::Firewall), pass.chain([rule().comment(&comment).done()]))
    }

    /// Whatever else the node refuses, load balancers may ask.
    fn health_check(&self, port: u16) -> Object {
        let comment = format!("{} health check node port", self.name);
        let builder = rule().protocol(Protocol::Tcp).comment(&comment).port(Protocol::Tcp, port);
        self.listed(Table::Filter, NODE_PORTS, builder.jump("ACCEPT"))
    }

    /// Refusing is done to what was not translated, behind translation.
    fn refusals(&self, frontend: &Frontend, objects: &mut Vec<Object>) {
        if let (FrontendAddress::Vip(address, port), Some(_)) = (frontend.address, &frontend.sources) {
            objects.extend(self.source_refusal(address, port, frontend));
        }
        objects.extend(refusal(frontend.routes).map(|refusal| self.refusal(frontend, refusal)));
        if let (true, FrontendAddress::Vip(address, _)) = (frontend.kind.owns_address(), frontend.address) {
            let comment = format!("{} has no such port", self.service.key.name.service);
            let rule = rule().destination(IpNet::from(address)).comment(&comment).reject(self.family());
            objects.push(self.listed(Table::Filter, CLUSTER_IPS, rule));
        }
    }

    /// Untranslated packets have not passed the chain of allowed sources. Where there is nothing to translate to, the
    /// sources have to be looked at here.
    fn source_refusal(&self, address: IpAddr, port: u16, frontend: &Frontend) -> Vec<Object> {
        let chain = self.own_chain(Kind::Firewall);
        let comment = format!("{} traffic not accepted by {chain}", self.name);
        if forwards(frontend.routes) {
            return vec![self.listed(
                Table::Filter,
                PROXY_FIREWALL,
                self.matching(address, port, &comment).jump("DROP"),
            )];
        }
        let pass = frontend.sources.iter().flatten().map(|range| rule().source(*range).jump("RETURN"));
        let rules = pass.chain([rule().comment(&comment).jump("DROP")]);
        let jump = self.matching(address, port, &format!("{} loadbalancer IP", self.name)).jump(&chain);
        vec![
            (Key::Chain(self.place(Table::Filter, chain)), Value::rules(rules)),
            self.listed(Table::Filter, PROXY_FIREWALL, jump),
        ]
    }

    fn refusal(&self, frontend: &Frontend, refusal: Refusal) -> Object {
        let comment = format!("{} {}", self.name, words(refusal.reason()));
        let (list, builder) = match frontend.address {
            FrontendAddress::Vip(address, port) => {
                (refusing_list(frontend.kind), self.matching(address, port, &comment))
            }
            FrontendAddress::NodePort(port) => {
                let builder = rule().protocol(self.protocol()).comment(&comment).port(self.protocol(), port);
                (REFUSED_NODE_PORTS, builder)
            }
        };
        let rule = match refusal {
            Refusal::Reject(_) => builder.reject(self.family()),
            Refusal::Drop(_) => builder.jump("DROP"),
        };
        self.listed(Table::Filter, list, rule)
    }
}

/// What becomes of packets that no route translates: the plan refuses them all in the same way.
fn refusal(routes: Routes) -> Option<Refusal> {
    [routes.outside, routes.node, routes.pod].into_iter().find_map(|route| match route.verdict {
        Verdict::Refuse(refusal) => Some(refusal),
        Verdict::Forward(_) => None,
    })
}

fn forwards(routes: Routes) -> bool {
    [Pool::Cluster, Pool::Local].into_iter().any(|pool| routes.use_pool(pool))
}

fn refusing_list(kind: FrontendKind) -> &'static str {
    if kind == FrontendKind::ClusterIp { SERVICES } else { EXTERNAL_SERVICES }
}

/// How a comment tells a reason.
pub(super) fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::NoEndpoints => "has no endpoints",
        Reason::NoLocalEndpoints => "has no local endpoints",
        Reason::UnknownPort => "has no such port",
        Reason::SourceNotAllowed => "traffic not accepted by KUBE-FW-",
        Reason::UnallocatedAddress => "kubernetes service address that no service has",
    }
}
