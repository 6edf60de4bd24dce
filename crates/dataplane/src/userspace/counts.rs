//! The relay's counters as traffic of Services. The relay counts connections and bytes; it does not see packets.
//!
//! A Service port has a listener for each pool, and a listener that closes takes its counters with it. So only the increase
//! since the last reading is added, as in the other modes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::{Plan, PortKey};
use portolan_relay::EndpointCounters;

use super::{Counters, Listener, Listeners};
use crate::Error;
use crate::traffic::{ForgetCounts, ReadTraffic, Relayed, TrafficSample, Usage, bytes};

pub(super) struct RelayCounters {
    listeners: Arc<Listeners>,
    totals: Totals,
}

impl RelayCounters {
    pub(super) fn new(listeners: Arc<Listeners>) -> Self {
        Self { listeners, totals: Totals::default() }
    }
}

impl ReadTraffic for RelayCounters {
    fn read(&mut self, plan: &Plan, _: &mut ForgetCounts<'_>) -> Result<&TrafficSample, Error> {
        // Endpoints first: the last reading of a closed listener removes it.
        let endpoints = self.listeners.endpoint_counters();
        self.totals.add(plan, self.listeners.counters(), endpoints);
        self.totals.sample.carried = self.listeners.active();
        Ok(&self.totals.sample)
    }
}

/// What is counted so far, by Service port and endpoint.
#[derive(Default)]
struct Totals {
    seen: HashMap<Listener, Counters>,
    seen_endpoints: HashMap<(Listener, SocketAddr), EndpointCounters>,
    sample: TrafficSample,
}

impl Totals {
    fn add(
        &mut self,
        plan: &Plan,
        listeners: Vec<(Listener, Counters)>,
        endpoints: Vec<(Listener, SocketAddr, EndpointCounters)>,
    ) {
        let ports: HashMap<(Family, String), &PortKey> =
            plan.services.keys().map(|port| ((port.family, Listener::name_of_port(port)), port)).collect();
        let port_of = |listener: &Listener| ports.get(&(listener.family, listener.port_name().to_owned())).copied();
        self.sample.forget_what_is_gone(plan);
        for (listener, now) in &listeners {
            let before = self.seen.get(listener).copied().unwrap_or_default();
            // A Service port that no client has used has no numbers.
            if let Some(port) = port_of(listener).filter(|_| *now != before) {
                let traffic = self.sample.services.entry(port.clone()).or_default();
                traffic.total.add(usage(now).since(usage(&before)));
                add_relayed(&mut traffic.relayed, &before, now);
            }
        }
        for (listener, endpoint, now) in &endpoints {
            let before = self.seen_endpoints.get(&(listener.clone(), *endpoint)).copied().unwrap_or_default();
            if let Some(port) = port_of(listener) {
                let more = endpoint_usage(now).since(endpoint_usage(&before));
                self.sample.add_to_endpoint(plan, port, *endpoint, more);
            }
        }
        self.seen = listeners.into_iter().collect();
        self.seen_endpoints =
            endpoints.into_iter().map(|(listener, it, counters)| ((listener, it), counters)).collect();
    }
}

fn usage(counted: &Counters) -> Usage {
    Usage {
        connections: counted.connections,
        requests: bytes(counted.bytes_from_clients),
        replies: bytes(counted.bytes_to_clients),
    }
}

fn endpoint_usage(counted: &EndpointCounters) -> Usage {
    Usage {
        connections: counted.connections,
        requests: bytes(counted.bytes_from_clients),
        replies: bytes(counted.bytes_to_clients),
    }
}

fn add_relayed(relayed: &mut Relayed, before: &Counters, now: &Counters) {
    let more = |before: u64, now: u64| now.checked_sub(before).unwrap_or(now);
    relayed.dial_errors += more(before.dial_errors, now.dial_errors);
    relayed.retries += more(before.retries, now.retries);
    relayed.failed += more(before.failed, now.failed);
    relayed.waits += more(before.refused_at_limit, now.refused_at_limit);
}

#[cfg(test)]
mod tests {
    use portolan_model::{Protocol, ServiceName, ServicePortName};
    use portolan_plan::{Endpoint, Pool, ServicePlan};

    use super::*;

    const ENDPOINT: Endpoint = Endpoint {
        address: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 244, 1, 2)),
        port: 8080,
        may_be_here: false,
    };

    fn plan() -> (Plan, PortKey) {
        let service = ServiceName::new("default", "web");
        let name = ServicePortName { service, port: "http".into(), protocol: Protocol::Tcp };
        let key = PortKey { name: Arc::new(name), family: Family::V4 };
        let mut plan = Plan::default();
        let port = ServicePlan { cluster: [ENDPOINT].into(), ..ServicePlan::empty(key.clone()) };
        plan.services.insert(key.clone(), Arc::new(port));
        (plan, key)
    }

    fn counted(connections: u64, bytes_to_clients: u64) -> Counters {
        Counters { connections, bytes_to_clients, ..Counters::default() }
    }

    /// A Service with the traffic policy Local has both.
    #[test]
    fn the_listeners_of_both_pools_count_and_none_counts_down() {
        let (plan, key) = plan();
        let [cluster, local] = [Pool::Cluster, Pool::Local].map(|pool| Listener::new(&key, pool));
        let mut totals = Totals::default();
        let mut read = |listeners: Vec<(Listener, Counters)>| {
            let endpoints = listeners.iter().map(|(listener, counters)| {
                let counters = EndpointCounters {
                    connections: counters.connections,
                    bytes_from_clients: 0,
                    bytes_to_clients: counters.bytes_to_clients,
                };
                (listener.clone(), ENDPOINT.socket(), counters)
            });
            let endpoints = endpoints.collect();
            totals.add(&plan, listeners, endpoints);
            let traffic = &totals.sample.services[&key];
            assert_eq!(traffic.total, traffic.endpoints[&ENDPOINT.socket()]);
            (traffic.total.connections, traffic.total.replies.bytes)
        };
        assert_eq!(read(vec![(cluster.clone(), counted(2, 20)), (local.clone(), counted(3, 30))]), (5, 50));
        assert_eq!(read(vec![(cluster.clone(), counted(4, 40)), (local.clone(), counted(3, 30))]), (7, 70));
        assert_eq!(read(vec![(cluster.clone(), counted(4, 40))]), (7, 70), "a listener is closed");
        assert_eq!(read(vec![(cluster, counted(4, 40)), (local, counted(1, 10))]), (8, 80), "and opened again");
    }

    #[test]
    fn a_service_port_without_clients_has_no_numbers() {
        let (plan, key) = plan();
        let mut totals = Totals::default();
        totals.add(&plan, vec![(Listener::new(&key, Pool::Cluster), Counters::default())], Vec::new());
        assert!(totals.sample.services.is_empty());
    }
}
