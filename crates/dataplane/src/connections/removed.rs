//! Endpoints that are gone, and whose connections are to be reset. Pure: time comes in as the time since the start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_kernel::conntrack::Flow;
use portolan_model::RemovedConnections;
use portolan_plan::{FrontendAddress, NodePlan, Plan, PortKey, ServicePlan};

use crate::report::{Changes, PortChange};
use crate::{Error, Listeners};

/// How many endpoints are known at most.
const MOST: usize = 100_000;
/// A packet that the old rules translated may enter the table after a walk. The second walk finds its connection.
const SECOND_WALK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Removed {
    endpoints: BTreeMap<(PortKey, SocketAddr), Gone>,
}

struct Gone {
    due: Duration,
    /// The plan that led there.
    before: Arc<ServicePlan>,
    is_first_walk: bool,
}

impl Removed {
    /// The cost follows the changed Service ports that want it. Returns whether anything waits.
    pub fn follow(&mut self, changes: &Changes, now: Duration) -> bool {
        changes.ports().iter().for_each(|change| self.follow_port(change, now));
        !self.endpoints.is_empty()
    }

    fn follow_port(&mut self, change: &PortChange, now: Duration) {
        let Some(before) = &change.before else { return };
        let wanted = change.after.as_ref().unwrap_or(before).open_connections.removed;
        let RemovedConnections::Reset(delay) = wanted else { return self.forget(&before.key, |_| true) };
        let after: BTreeSet<SocketAddr> =
            change.after.iter().flat_map(|port| port.serving()).map(|it| it.socket()).collect();
        self.forget(&before.key, |endpoint| after.contains(endpoint));
        for endpoint in before.serving().map(|it| it.socket()).filter(|it| !after.contains(it)) {
            let key = (before.key.clone(), endpoint);
            if self.endpoints.len() < MOST && !self.endpoints.contains_key(&key) {
                let gone = Gone { due: now + delay, before: before.clone(), is_first_walk: true };
                self.endpoints.insert(key, gone);
            }
        }
    }

    /// An endpoint that serves again is spared.
    fn forget(&mut self, port: &PortKey, is_spared: impl Fn(&SocketAddr) -> bool) {
        if !self.endpoints.is_empty() {
            self.endpoints.retain(|(of, endpoint), _| of != port || !is_spared(endpoint));
        }
    }

    /// When the next endpoint is due.
    pub fn next(&self) -> Option<Duration> {
        self.endpoints.values().map(|gone| gone.due).min()
    }

    /// The endpoints that are due, with a second turn a little later.
    pub fn due(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        self.endpoints.retain(|(_, endpoint), gone| {
            if gone.due > now {
                return true;
            }
            due.endpoints.entry(*endpoint).or_default().push(gone.before.clone());
            gone.due = now + SECOND_WALK;
            std::mem::take(&mut gone.is_first_walk)
        });
        due
    }

    /// A walk has failed, or found more than it may keep: these endpoints have another turn, unless they serve again.
    pub fn repeat(&mut self, due: Due, plan: &Plan, now: Duration) {
        for (endpoint, plans) in due.endpoints {
            for before in plans {
                let current = plan.services.get(&before.key);
                if current.is_some_and(|it| it.serving().any(|serving| serving.socket() == endpoint)) {
                    continue;
                }
                let gone = Gone { due: now, before: before.clone(), is_first_walk: true };
                self.endpoints.insert((before.key.clone(), endpoint), gone);
            }
        }
    }
}

/// Endpoints whose connections are to be reset, with the plans that led to them.
#[derive(Default)]
pub struct Due {
    endpoints: HashMap<SocketAddr, Vec<Arc<ServicePlan>>>,
}

impl Due {
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Resets connections that relays carry, up to so many. Returns how many.
    pub(super) fn reset_carried(&self, listeners: &[Arc<Listeners>], most: usize) -> Result<usize, Error> {
        let mut count = 0;
        for (endpoint, plans) in &self.endpoints {
            for (before, listeners) in plans.iter().flat_map(|before| listeners.iter().map(move |it| (before, it))) {
                count += listeners.reset(&before.key, *endpoint, Duration::ZERO, most - count)?;
            }
        }
        Ok(count)
    }

    /// Whether the connection goes through a frontend of a Service to an endpoint that the Service no longer has.
    pub fn concerns(&self, flow: &Flow, plan: &Plan) -> bool {
        let (frontend, endpoint) = (flow.original_destination, flow.reply_source);
        let plans = self.endpoints.get(&endpoint).filter(|_| frontend != endpoint);
        plans.into_iter().flatten().any(|before| has_frontend(before, frontend, &plan.node))
    }
}

/// Whether the address is a frontend of the Service port.
fn has_frontend(service: &ServicePlan, address: SocketAddr, node: &NodePlan) -> bool {
    service.frontends.iter().any(|frontend| match frontend.address {
        FrontendAddress::Vip(ip, port) => SocketAddr::new(ip, port) == address,
        FrontendAddress::NodePort(port) => port == address.port() && node.owns(address.ip()),
    })
}

#[cfg(test)]
mod tests {
    use portolan_model::{Family, Protocol, ServiceName, ServicePortName};
    use portolan_plan::{Endpoint, Frontend, FrontendKind, OpenConnections, Pool, Route, Routes, Verdict};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn port(removed: RemovedConnections, endpoints: &[u8]) -> Arc<ServicePlan> {
        let name =
            ServicePortName { service: ServiceName::new("default", "web"), port: "".into(), protocol: Protocol::Tcp };
        let endpoint = |last: &u8| Endpoint { address: [10, 244, 1, *last].into(), port: 8080, may_be_here: false };
        let frontend = Frontend {
            address: FrontendAddress::Vip([10, 96, 0, 1].into(), 80),
            kind: FrontendKind::ClusterIp,
            sources: None,
            routes: Routes::same(Route::new(Verdict::Forward(Pool::Cluster), false)),
            at_connect: Default::default(),
        };
        Arc::new(ServicePlan {
            frontends: [frontend].into(),
            cluster: endpoints.iter().map(endpoint).collect(),
            open_connections: OpenConnections { removed, ..OpenConnections::default() },
            ..ServicePlan::empty(PortKey { name: Arc::new(name), family: Family::V4 })
        })
    }

    fn change(before: &Arc<ServicePlan>, after: Option<&Arc<ServicePlan>>) -> Changes {
        let change = PortChange { before: Some(before.clone()), after: after.cloned() };
        Changes::Known { ports: vec![change], node: None }
    }

    fn flow(frontend: &str, endpoint: u8) -> Flow {
        let client: SocketAddr = "10.244.1.99:1000".parse().unwrap();
        Flow {
            protocol: 6,
            original_source: client,
            original_destination: frontend.parse().unwrap(),
            reply_source: SocketAddr::new([10, 244, 1, endpoint].into(), 8080),
            reply_destination: client,
        }
    }

    #[test]
    fn connections_to_a_removed_endpoint_through_the_service_are_due() {
        let reset = RemovedConnections::Reset(Duration::ZERO);
        let mut removed = Removed::default();
        assert!(removed.follow(&change(&port(reset, &[1, 2]), Some(&port(reset, &[2]))), SECOND));
        assert_eq!(removed.next(), Some(SECOND));
        let plan = Plan::default();
        for _ in ["first walk", "second walk"] {
            let due = removed.due(SECOND * 2 + SECOND_WALK);
            assert!(due.concerns(&flow("10.96.0.1:80", 1), &plan));
            assert!(!due.concerns(&flow("10.96.0.1:80", 2), &plan), "it still serves");
            assert!(!due.concerns(&flow("10.96.0.9:80", 1), &plan), "another Service");
            assert!(!due.concerns(&flow("10.244.1.1:8080", 1), &plan), "a direct connection");
            removed.endpoints.values_mut().for_each(|gone| gone.due = SECOND);
        }
        assert!(removed.due(SECOND * 9).is_empty() && removed.next().is_none());
    }

    #[test]
    fn an_endpoint_that_returns_in_time_is_spared() {
        let later = RemovedConnections::Reset(SECOND * 30);
        let (with, without) = (port(later, &[1, 2]), port(later, &[2]));
        let mut removed = Removed::default();
        removed.follow(&change(&with, Some(&without)), SECOND);
        removed.follow(&change(&without, None), SECOND * 9);
        assert_eq!(removed.next(), Some(SECOND * 31), "the time runs from the removal");
        assert_eq!(removed.endpoints.len(), 2, "a removed Service has no endpoints");
        removed.follow(&change(&without, Some(&with)), SECOND * 20);
        assert_eq!(removed.next(), None);
    }

    #[test]
    fn by_default_nothing_is_due() {
        let keep = RemovedConnections::Keep;
        let reset = RemovedConnections::Reset(Duration::ZERO);
        let mut removed = Removed::default();
        assert!(!removed.follow(&change(&port(keep, &[1]), Some(&port(keep, &[]))), SECOND));
        removed.follow(&change(&port(reset, &[1]), Some(&port(reset, &[]))), SECOND);
        assert!(!removed.follow(&change(&port(reset, &[]), Some(&port(keep, &[]))), SECOND), "the setting has changed");
    }
}
