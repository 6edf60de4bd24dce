//! Which endpoints of a Service port are usable, and by which traffic.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use portolan_model::{Balancing, Family, Observation, Observed, ServicePort, SliceEndpoint, Slices};

use crate::balance::Balance;
use crate::endpoint::Endpoint;
use crate::node::NodePlan;
use crate::quarantine;
use crate::topology::Topology;
use crate::weights;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pools {
    pub(crate) cluster: Box<[Endpoint]>,
    pub(crate) local: Box<[Endpoint]>,
    /// Endpoints in neither pool that still serve: their existing flows are kept.
    pub(crate) draining: Box<[Endpoint]>,
    /// Those of them that do not answer.
    pub(crate) quarantined: Box<[Endpoint]>,
    /// Whether any endpoint in the cluster could serve, under either policy.
    pub(crate) any: bool,
}

/// Which of the two pools the traffic policies of a Service port can lead to.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) cluster: bool,
    pub(crate) local: bool,
}

type Known<'a> = BTreeMap<(IpAddr, u16), &'a SliceEndpoint>;

impl Pools {
    pub(crate) fn choose(
        slices: &Slices,
        port: &ServicePort,
        family: Family,
        wanted: Wanted,
        chooser: &Chooser<'_>,
    ) -> Self {
        let known = known_endpoints(slices, port, family);
        let node = chooser.node;
        let cluster = if wanted.cluster { chooser.possible(chooser.cluster_pool(&known)) } else { Vec::new() };
        let local = if wanted.local { chooser.possible(chooser.local_pool(&known)) } else { Vec::new() };
        let could_serve = |endpoint: &&SliceEndpoint| is_usable(endpoint) && chooser.weight(endpoint) > 0;
        let any = !cluster.is_empty() || (wanted.local && known.values().any(could_serve));
        let in_a_pool = |endpoint: &Endpoint| is_in(&cluster, endpoint) || is_in(&local, endpoint);
        let draining: Box<[Endpoint]> =
            pick(&known, node, |endpoint| endpoint.conditions.serving).filter(|e| !in_a_pool(e)).collect();
        let is_silent = |endpoint: &&Endpoint| chooser.observation(&endpoint.socket()).silent.is_some();
        let quarantined = draining.iter().filter(is_silent).copied().collect();
        let slots = |pool| chooser.balance.slots(pool).into();
        Self { draining, quarantined, cluster: slots(cluster), local: slots(local), any }
    }
}

/// Endpoints of a pool with their weights, sorted by address and port, as the known endpoints are.
type Weighted = Vec<(Endpoint, u64)>;

fn is_in(pool: &[(Endpoint, u64)], endpoint: &Endpoint) -> bool {
    let place = |endpoint: &Endpoint| (endpoint.address, endpoint.port);
    pool.binary_search_by_key(&place(endpoint), |(endpoint, _)| place(endpoint)).is_ok()
}

/// The same address and port may be in several slices while a pod moves between them: the last one that is not
/// terminating wins, and a terminating one never hides another.
fn known_endpoints<'a>(slices: &'a Slices, port: &ServicePort, family: Family) -> Known<'a> {
    let mut known = Known::new();
    for slice in slices.0.iter().filter(|slice| slice.family == family && !slice.is_for_names_only) {
        let numbers = slice.ports.iter().filter(|it| it.name == port.name && it.protocol == port.protocol);
        for number in numbers.map(|it| it.port) {
            for endpoint in &slice.endpoints {
                let entry = known.entry((endpoint.address, number)).or_insert(endpoint);
                if !endpoint.conditions.terminating {
                    *entry = endpoint;
                }
            }
        }
    }
    known
}

/// Chooses endpoints of one Service for one node.
pub(crate) struct Chooser<'a> {
    pub(crate) node: &'a NodePlan,
    pub(crate) balancing: Option<&'a Balancing>,
    pub(crate) balance: Balance,
    pub(crate) observed: Option<&'a Observed>,
}

impl Chooser<'_> {
    fn cluster_pool(&self, known: &Known<'_>) -> Weighted {
        let node = self.node;
        let is_ready = |endpoint: &SliceEndpoint| endpoint.conditions.ready && self.weight(endpoint) > 0;
        let topology = Topology::choose(known.values().copied().filter(|endpoint| is_ready(endpoint)), node);
        let chosen = self.weighted(known, |endpoint| is_ready(endpoint) && topology.allows(endpoint, node));
        if chosen.is_empty() { self.weighted(known, is_last_resort) } else { chosen }
    }

    fn local_pool(&self, known: &Known<'_>) -> Weighted {
        let is_here = |endpoint: &SliceEndpoint| is_local(endpoint, self.node);
        let ready = self.weighted(known, |endpoint| is_here(endpoint) && endpoint.conditions.ready);
        if ready.is_empty() {
            return self.weighted(known, |endpoint| is_here(endpoint) && is_last_resort(endpoint));
        }
        ready
    }

    /// What of a pool the mode can have.
    fn possible(&self, pool: Weighted) -> Weighted {
        if self.node.limits.load_balancers.is_some() { alike(pool) } else { pool }
    }

    fn weight(&self, endpoint: &SliceEndpoint) -> u64 {
        weights::weight(endpoint, self.balancing.map(|it| &it.places))
    }

    fn observation(&self, endpoint: &SocketAddr) -> Observation {
        self.observed.map_or(Observation::USUAL, |it| it.of(*endpoint))
    }

    /// An endpoint without weight keeps its connections and gets no new ones, as one that drains.
    fn weighted(&self, known: &Known<'_>, wanted: impl Fn(&SliceEndpoint) -> bool) -> Weighted {
        let weighted = known.iter().map(|(place, endpoint)| (place, endpoint, self.weight(endpoint)));
        let chosen = weighted.filter(|(_, endpoint, weight)| *weight > 0 && wanted(endpoint));
        let chosen = chosen.map(|(place, endpoint, weight)| (planned(place, endpoint, self.node), weight)).collect();
        match self.observed {
            Some(observed) => observed_weights(chosen, observed),
            None => chosen,
        }
    }
}

/// The endpoints with the most common target port, the lowest of several, each with the same weight.
fn alike(pool: Weighted) -> Weighted {
    let mut counts = BTreeMap::<u16, usize>::new();
    pool.iter().for_each(|(endpoint, _)| *counts.entry(endpoint.port).or_default() += 1);
    let Some((port, _)) = counts.iter().max_by_key(|(port, count)| (**count, Reverse(**port))) else { return pool };
    let kept = pool.iter().filter(|(endpoint, _)| endpoint.port == *port);
    kept.map(|(endpoint, _)| (*endpoint, 1)).collect()
}

/// The weights of answering endpoints, as far as new or loaded ones have them.
fn observed_weights(mut chosen: Weighted, observed: &Observed) -> Weighted {
    quarantine::leave_out(&mut chosen, |endpoint| observed.of(endpoint.socket()).silent);
    let reduce = |(endpoint, weight): &mut (Endpoint, u64)| {
        *weight = weights::reduced(*weight, observed.of(endpoint.socket()));
    };
    chosen.iter_mut().for_each(reduce);
    chosen
}

/// The ready endpoints of this node, by address.
pub(crate) fn local_ready_addresses(
    slices: &Slices,
    port: &ServicePort,
    family: Family,
    node: &NodePlan,
) -> Vec<IpAddr> {
    let known = known_endpoints(slices, port, family);
    let ready = known.into_values().filter(|endpoint| is_local(endpoint, node) && endpoint.conditions.ready);
    ready.map(|endpoint| endpoint.address).collect()
}

fn is_local(endpoint: &SliceEndpoint, node: &NodePlan) -> bool {
    endpoint.node() == Some(&node.name)
}

fn is_usable(endpoint: &SliceEndpoint) -> bool {
    endpoint.conditions.ready || is_last_resort(endpoint)
}

/// A terminating endpoint serves only if none is ready.
fn is_last_resort(endpoint: &SliceEndpoint) -> bool {
    endpoint.conditions.serving && endpoint.conditions.terminating
}

fn pick<'a>(
    known: &'a Known<'_>,
    node: &'a NodePlan,
    wanted: impl Fn(&SliceEndpoint) -> bool + 'a,
) -> impl Iterator<Item = Endpoint> + 'a {
    known.iter().filter(move |(_, endpoint)| wanted(endpoint)).map(|(place, endpoint)| planned(place, endpoint, node))
}

fn planned((address, port): &(IpAddr, u16), endpoint: &SliceEndpoint, node: &NodePlan) -> Endpoint {
    // A virtual switch has a port for each pod of this node, and must not get another one for the same address.
    let may_be_here = match node.limits.load_balancers {
        Some(_) => is_local(endpoint, node),
        None => endpoint.node().is_none_or(|name| *name == node.name),
    };
    Endpoint { address: *address, port: *port, may_be_here }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::ops::Range;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use portolan_model::{Conditions, Protocol, Slice, SlicePort};

    use super::*;

    /// Far above what linear work takes, and far below what comparing all pairs takes.
    const LINEAR: Duration = Duration::from_secs(5);

    /// Every other endpoint drains.
    fn slice(numbers: Range<u32>) -> Slice {
        let endpoint = |number: u32| SliceEndpoint {
            conditions: if number.is_multiple_of(2) { Conditions::READY } else { Conditions::DRAINING },
            ..SliceEndpoint::new(Ipv4Addr::from(0x0a00_0000 + number).into())
        };
        let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }].into();
        let endpoints = numbers.map(endpoint).collect();
        Slice { name: "web".into(), family: Family::V4, is_for_names_only: false, ports, endpoints }
    }

    fn pools(slices: Vec<Slice>) -> Pools {
        let slices = Slices(slices.into_iter().map(Arc::new).collect());
        let port = ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None };
        let both = Wanted { cluster: true, local: true };
        let node = NodePlan::default();
        let chooser = Chooser { node: &node, balancing: None, balance: Balance::default(), observed: None };
        Pools::choose(&slices, &port, Family::V4, both, &chooser)
    }

    #[test]
    fn slices_for_names_get_no_traffic() {
        let for_names = Slice { is_for_names_only: true, ..slice(10..20) };
        assert_eq!(pools(vec![slice(0..10), for_names]), pools(vec![slice(0..10)]));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test measures time, the plan does not")]
    fn the_work_is_linear_in_the_number_of_endpoints() {
        let count = 100_000;
        let slice = slice(0..count);
        let start = Instant::now();
        let pools = pools(vec![slice]);
        assert!(start.elapsed() < LINEAR, "{:?} for {count} endpoints", start.elapsed());
        assert_eq!((pools.cluster.len(), pools.draining.len()), (count as usize / 2, count as usize / 2));
    }
}
