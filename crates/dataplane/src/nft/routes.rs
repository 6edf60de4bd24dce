//! Chains that many Services share: the source of a packet decides the pool, and the pool's size decides the draw. Only turns
//! are counted in chains of each Service port (`turns`).
//!
//! Their names describe them, so that `goto sources-snat-cluster-3` in a listing needs no explanation: only listed
//! sources, masqueraded, to one of three endpoints of the cluster pool.

use std::sync::Arc;

use portolan_model::{Family, HashOf};
use portolan_plan::{
    FrontendAddress, LocalDetector, NodePlan, Pool, Reason, Refusal, Route, Routes, Selection, ServicePlan, Verdict,
};

use super::dispatch_key::{DispatchKey, Flags};
use super::fields::{Draw, Field, NODE_PORT, VIP};
use super::objects::{Named, regular};
use super::rules::{Rule, RuleBuilder, rule};
use super::sets::SetName;

/// Slots of the local pool begin here, so that both pools of a frontend fit into one map.
pub(super) const LOCAL_OFFSET: u32 = 65_536;

/// Everything by which one frontend's chains differ from another's.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a> {
    pub(super) family: Family,
    pub(super) flags: Flags,
    pub(super) routes: Routes,
    pub(super) cluster_size: usize,
    pub(super) local_size: usize,
    pub(super) node: &'a NodePlan,
    pub(super) mark: u32,
}

impl Shape<'_> {
    pub(super) fn is_node_port(address: FrontendAddress) -> bool {
        matches!(address, FrontendAddress::NodePort(_))
    }

    /// The same as numbers, by which the frontend's element leads to its chain.
    pub(super) fn dispatch_key(&self) -> DispatchKey {
        let size = |pool| if self.routes.use_pool(pool) { self.size(pool) as u32 } else { 0 };
        DispatchKey::new(self.routes, self.flags, size(Pool::Cluster), size(Pool::Local))
    }

    /// The chain that the frontend's element leads to.
    pub(super) fn entry(&self) -> Arc<str> {
        match self.flags.has_sources {
            true => format!("sources-{}", self.routes_name()).into(),
            false => self.routes_name(),
        }
    }

    /// The names of all chains that the frontend needs and that not every node has, without building them.
    pub(super) fn chains(&self) -> Vec<(Arc<str>, Part)> {
        let mut chains = Vec::new();
        if self.flags.has_sources {
            chains.push((self.entry(), Part::Sources));
        }
        if !self.is_plain() {
            chains.push((self.routes_name(), Part::Routes));
        }
        for pool in self.pools().filter(|pool| !self.is_standing(*pool)) {
            chains.push((self.pool_name(pool), Part::Pool(pool)));
        }
        chains
    }

    pub(super) fn build(&self, part: Part) -> Named {
        match part {
            Part::Sources => (self.entry(), regular(self.source_rules())),
            Part::Routes => (self.routes_name(), regular(self.route_rules())),
            Part::Pool(pool) => (self.pool_name(pool), regular(self.pool_rules(pool))),
        }
    }

    fn is_standing(&self, pool: Pool) -> bool {
        let Flags { is_node_port, remembers_clients, .. } = self.flags;
        let is_random = self.selection(pool) == Selection::Random;
        is_random && !is_node_port && !remembers_clients && self.size(pool) <= STANDING
    }

    fn pools(&self) -> impl Iterator<Item = Pool> {
        let routes = [self.routes.pod, self.routes.node, self.routes.outside];
        [Pool::Cluster, Pool::Local]
            .into_iter()
            .filter(move |pool| routes.iter().any(|route| route.verdict == Verdict::Forward(*pool)))
    }

    /// All routes are the same and need nothing of their own: the pool or refusal chain itself is the entry.
    fn is_plain(&self) -> bool {
        let Routes { pod, node, outside } = self.routes;
        pod == node && node == outside && !pod.masquerade
    }

    fn routes_name(&self) -> Arc<str> {
        let Routes { pod, node, outside } = self.routes;
        let name = |route| self.route_name(route);
        match (pod == node, node == outside) {
            (true, true) => name(pod),
            (false, true) => format!("pods-{}-others-{}", name(pod), name(node)).into(),
            _ if pod == outside => format!("node-{}-others-{}", name(node), name(pod)).into(),
            _ => format!("pods-{}-node-{}-others-{}", name(pod), name(node), name(outside)).into(),
        }
    }

    fn route_name(&self, route: Route) -> Arc<str> {
        let target = self.target(route.verdict);
        if route.masquerade { format!("snat-{target}").into() } else { target }
    }

    fn target(&self, verdict: Verdict) -> Arc<str> {
        match verdict {
            Verdict::Forward(pool) => self.pool_name(pool),
            Verdict::Refuse(refusal) => refusal_name(refusal),
        }
    }

    fn pool_name(&self, pool: Pool) -> Arc<str> {
        let kind = if self.flags.is_node_port { "nodeport-" } else { "" };
        let memory = if self.flags.remembers_clients { "sticky-" } else { "" };
        let size = self.size(pool);
        match self.selection(pool) {
            Selection::Random => format!("{kind}{memory}{pool}-{size}").into(),
            Selection::InTurn => format!("{kind}turns-{pool}").into(),
            Selection::ByHash(HashOf::Client) => format!("{kind}{memory}hash-{pool}-{size}").into(),
            Selection::ByHash(HashOf::ClientAndPort) => format!("{kind}{memory}hash-with-port-{pool}-{size}").into(),
        }
    }

    fn selection(&self, pool: Pool) -> Selection {
        of_slots(self.flags.selection, self.size(pool))
    }

    fn size(&self, pool: Pool) -> usize {
        match pool {
            Pool::Cluster => self.cluster_size,
            Pool::Local => self.local_size,
        }
    }

    fn source_rules(&self) -> Vec<Rule> {
        let fields = &[Field::Destination, Field::Protocol, Field::Port, Field::Source];
        vec![
            rule(self.family).member(fields, SetName::Sources).go_to(&self.routes_name()),
            rule(self.family).go_to(&refusal_name(Refusal::Drop(Reason::SourceNotAllowed))),
        ]
    }

    /// Tests for pods first, then for the node, as the plan's origins do; the rest is outside.
    fn route_rules(&self) -> Vec<Rule> {
        let Routes { pod, node, outside } = self.routes;
        let mut rules = Vec::new();
        if let Some(detector) = self.node.family(self.family).pods.as_ref().filter(|_| pod != node || pod != outside) {
            rules.extend(self.route(pod, || detected(rule(self.family), detector)));
        }
        if node != outside {
            rules.extend(self.route(node, || rule(self.family).source_is_local()));
        }
        rules.extend(self.route(outside, || rule(self.family)));
        rules
    }

    fn route(&self, route: Route, test: impl Fn() -> RuleBuilder) -> Vec<Rule> {
        let mark = route.masquerade.then(|| test().set_mark(self.mark).done());
        mark.into_iter().chain([test().go_to(&self.target(route.verdict))]).collect()
    }

    fn pool_rules(&self, pool: Pool) -> Vec<Rule> {
        let flags = Flags { selection: self.selection(pool), ..self.flags };
        pool_rules(self.family, flags, pool, self.size(pool) as u32)
    }
}

pub(super) fn refusal_name(refusal: Refusal) -> Arc<str> {
    refusal.to_string().replace(' ', "-").into()
}

/// Pool chains of up to this many endpoints always exist. A new one would make the kernel look at every element of the map of
/// endpoints, because that is what it does when a rule begins to use a map.
pub(super) const STANDING: usize = 8;

pub(super) fn standing_chains(family: Family) -> impl Iterator<Item = Named> {
    let pools = [Pool::Cluster, Pool::Local].into_iter().flat_map(|pool| (1..=STANDING).map(move |size| (pool, size)));
    pools.map(move |(pool, size)| {
        let name = format!("{pool}-{size}").into();
        (name, regular(pool_rules(family, Flags::default(), pool, size as u32)))
    })
}

/// The last rule affects only packets that arrive during a change. Without it they would go on untranslated, and so would
/// their connection. Dropped, the client's retransmission finds the new state.
fn pool_rules(family: Family, flags: Flags, pool: Pool, slots: u32) -> Vec<Rule> {
    let (takes_turns, is_node_port) = (flags.selection == Selection::InTurn, flags.is_node_port);
    let of_port = || rule(family).verdict_map(frontend_fields(is_node_port), SetName::recalls(is_node_port, pool));
    let mut rules: Vec<Rule> = (takes_turns || flags.remembers_clients).then(of_port).into_iter().collect();
    rules.extend((!takes_turns).then(|| draw_rule(family, is_node_port, pool, flags.selection, slots)));
    rules.push(rule(family).drop());
    rules
}

/// Sends the packet to the endpoint of the slot that is drawn.
pub(super) fn draw_rule(family: Family, is_node_port: bool, pool: Pool, selection: Selection, slots: u32) -> Rule {
    let offset = if pool == Pool::Local { LOCAL_OFFSET } else { 0 };
    let set = if is_node_port { SetName::NodePortEndpoints } else { SetName::Endpoints };
    let draw = Draw { selection, slots, offset };
    rule(family).translate(frontend_fields(is_node_port), Some(draw), set.name())
}

fn frontend_fields(is_node_port: bool) -> &'static [Field] {
    if is_node_port { NODE_PORT } else { VIP }
}

/// Of one slot there is nothing to select, and the kernel refuses to hash for it.
fn of_slots(selection: Selection, slots: usize) -> Selection {
    if slots < 2 { Selection::Random } else { selection }
}

/// Whether the pool has a counter of its own. One endpoint takes no turns.
pub(super) fn takes_turns(service: &ServicePlan, pool: Pool) -> bool {
    of_slots(service.balance.selection(), service.pool(pool).len()) == Selection::InTurn
}

/// Which of a shape's chains.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Sources,
    Routes,
    Pool(Pool),
}

fn detected(builder: RuleBuilder, detector: &LocalDetector) -> RuleBuilder {
    match detector {
        LocalDetector::Source(range) => builder.source_in(range),
        LocalDetector::Interface(name) => builder.interface(name),
        LocalDetector::InterfacePrefix(prefix) => builder.interface_prefix(prefix),
    }
}
