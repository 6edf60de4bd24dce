//! Open connections by Service port and endpoint, counted in one walk of the connection table.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use portolan_kernel::conntrack::{Conntrack, Flow, TcpFlow, TcpState};
use portolan_model::{Family, Protocol};
use portolan_plan::{AtConnect, Endpoint, Plan, PortKey, ServicePlan};

use crate::Error;

#[derive(Clone, Debug, Default)]
pub struct Load {
    ports: HashMap<PortKey, BTreeMap<SocketAddr, u32>>,
}

/// The endpoints of one Service port, with their open connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortLoad {
    pub endpoints: BTreeMap<SocketAddr, u32>,
    /// The connections of the most loaded endpoint, divided by what would be its share. Without connections it is 1.
    pub imbalance: f64,
}

/// Frontend and endpoint.
type Pair = (SocketAddr, SocketAddr);

impl Load {
    pub fn read(conntrack: &mut Conntrack, plan: &Plan) -> Result<Self, Error> {
        let mut load = Self::default();
        for family in Family::BOTH {
            let count = |pairs: &mut HashMap<Pair, u32>, flow: &TcpFlow| {
                if is_open(flow) {
                    *pairs.entry(pair(&flow.flow)).or_default() += 1;
                }
            };
            load.add(&conntrack.tcp_flows(family, count)?, plan);
        }
        Ok(load)
    }

    fn add(&mut self, pairs: &HashMap<Pair, u32>, plan: &Plan) {
        let direct = direct_endpoints(plan);
        // Connections to the relay lead to the node itself.
        let is_carried = |endpoint: &SocketAddr| plan.node.limits.relayed && plan.node.owns(endpoint.ip());
        for ((frontend, endpoint), count) in pairs {
            if frontend != endpoint && is_carried(endpoint) {
                continue;
            }
            if frontend != endpoint {
                let claim = plan.holder(frontend.ip(), frontend.port(), Protocol::Tcp);
                claim.iter().for_each(|claim| self.count(&claim.holder, *endpoint, *count));
                continue;
            }
            let ports = direct.get(endpoint).into_iter().flatten();
            ports.for_each(|port| self.count(port, *endpoint, *count));
        }
    }

    fn count(&mut self, port: &PortKey, endpoint: SocketAddr, count: u32) {
        match self.ports.get_mut(port) {
            Some(endpoints) => *endpoints.entry(endpoint).or_default() += count,
            None => _ = self.ports.insert(port.clone(), [(endpoint, count)].into()),
        }
    }

    /// The open connections of each Service port that has any.
    pub fn open(&self) -> impl Iterator<Item = (&PortKey, u32)> {
        self.ports.iter().map(|(port, endpoints)| (port, endpoints.values().sum()))
    }

    /// Also endpoints without connections, and those that are gone and still have some.
    pub fn of(&self, service: &ServicePlan) -> PortLoad {
        let mut endpoints: BTreeMap<SocketAddr, u32> =
            service.serving().map(|endpoint| (endpoint.socket(), 0)).collect();
        endpoints
            .extend(self.ports.get(&service.key).into_iter().flatten().map(|(endpoint, count)| (*endpoint, *count)));
        let imbalance = imbalance(pool(service), &endpoints);
        PortLoad { endpoints, imbalance }
    }
}

/// The relay connects to endpoints itself, and so do sockets whose destination a hook translates. Such a connection counts for
/// each Service port that can lead there.
pub(super) fn direct_endpoints(plan: &Plan) -> HashMap<SocketAddr, Vec<&PortKey>> {
    let mut ports = HashMap::<SocketAddr, Vec<&PortKey>>::new();
    let limits = plan.node.limits;
    if !limits.relayed && !limits.at_connect {
        return ports;
    }
    let is_direct = |service: &&ServicePlan| {
        limits.relayed || service.frontends.iter().any(|frontend| frontend.at_connect != AtConnect::default())
    };
    let services = plan.services.values().map(|service| &**service).filter(|it| it.protocol() == Protocol::Tcp);
    for service in services.filter(is_direct) {
        for endpoint in service.serving() {
            let known = ports.entry(endpoint.socket()).or_default();
            if known.last() != Some(&&service.key) {
                known.push(&service.key);
            }
        }
    }
    ports
}

fn is_open(flow: &TcpFlow) -> bool {
    flow.is_replied && flow.state == TcpState::Established
}

fn pair(flow: &Flow) -> Pair {
    (flow.original_destination, flow.reply_source)
}

/// The slots that new connections are shared among.
pub(super) fn pool(service: &ServicePlan) -> &[Endpoint] {
    if service.cluster.is_empty() { &service.local } else { &service.cluster }
}

/// The slots of each endpoint.
pub(super) fn shares(pool: &[Endpoint]) -> BTreeMap<SocketAddr, u32> {
    let mut shares = BTreeMap::new();
    pool.iter().for_each(|endpoint| *shares.entry(endpoint.socket()).or_default() += 1);
    shares
}

fn imbalance(pool: &[Endpoint], open: &BTreeMap<SocketAddr, u32>) -> f64 {
    let shares = shares(pool);
    let of = |endpoint: &SocketAddr| f64::from(open.get(endpoint).copied().unwrap_or(0));
    let total: f64 = shares.keys().map(of).sum();
    let ratio = |(endpoint, slots): (&SocketAddr, &u32)| of(endpoint) / total * pool.len() as f64 / f64::from(*slots);
    if total == 0.0 { 1.0 } else { shares.iter().map(ratio).fold(0.0, f64::max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(last: u8) -> Endpoint {
        Endpoint { address: [10, 244, 1, last].into(), port: 8080, may_be_here: false }
    }

    fn ratio(slots: &[u8], open: &[(u8, u32)]) -> f64 {
        let pool: Vec<Endpoint> = slots.iter().map(|last| endpoint(*last)).collect();
        imbalance(&pool, &open.iter().map(|(last, count)| (endpoint(*last).socket(), *count)).collect())
    }

    #[test]
    fn imbalance_is_that_of_the_most_loaded_endpoint() {
        assert_eq!(ratio(&[1, 2, 3], &[]), 1.0);
        assert_eq!(ratio(&[1, 2, 3], &[(1, 200), (2, 200), (3, 200)]), 1.0);
        assert_eq!(ratio(&[1, 2, 3, 4, 5, 6], &[(1, 200), (2, 200), (3, 200)]), 2.0);
        assert_eq!(ratio(&[1, 1, 1, 2], &[(1, 300), (2, 100)]), 1.0, "weights count");
        assert_eq!(
            ratio(&[1, 2], &[(1, 5), (2, 5), (9, 90)]),
            1.0,
            "an endpoint that gets no new connections does not"
        );
        assert_eq!(ratio(&[], &[(9, 90)]), 1.0);
    }
}
