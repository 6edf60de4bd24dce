//! Which Services answer the health checks of load balancers on this node (`spec.healthCheckNodePort`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_model::{Family, Service, ServiceKind, Slices, Snapshot, TrafficPolicy};

use crate::config::Limits;
use crate::node::NodePlan;
use crate::pools::local_ready_addresses;

/// Load balancers probe this port of the node, in each family of the Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HealthCheck {
    pub port: u16,
    /// Addresses of ready endpoints on this node. A terminating endpoint may still serve, but is no reason to send
    /// new clients to this node.
    pub local_endpoints: usize,
}

pub(crate) fn decide(service: &Service, family: Family, facts: &Snapshot, node: &NodePlan) -> Option<HealthCheck> {
    let port = port(service, family)?;
    let none = Slices::default();
    let slices = facts.slices.get(&service.name).map_or(&none, |slices| slices);
    Some(HealthCheck { port, local_endpoints: local_addresses(service, family, slices, node).len() })
}

pub(crate) fn port(service: &Service, family: Family) -> Option<u16> {
    service.health_check_node_port.filter(|_| is_checked(service, family))
}

/// The port at load-balancer IPs whose probes the mode leads to the node, if it does so.
pub(crate) fn forwarded_port(service: &Service, family: Family, limits: &Limits) -> Option<u16> {
    let common = limits.load_balancers?.forwarded_health_port?;
    Some(port(service, family).unwrap_or(common))
}

/// Only where the choice of the node matters: `externalTrafficPolicy: Local`.
fn is_checked(service: &Service, family: Family) -> bool {
    service.kind == ServiceKind::LoadBalancer
        && service.external_policy == TrafficPolicy::Local
        && service.cluster_ips.iter().any(|address| Family::of(*address) == family)
}

/// A pod behind several ports of the Service counts once.
fn local_addresses(service: &Service, family: Family, slices: &Slices, node: &NodePlan) -> BTreeSet<IpAddr> {
    service.ports.iter().flat_map(|port| local_ready_addresses(slices, port, family, node)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portolan_model::{Conditions, Node, Protocol, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort};

    use super::*;
    use crate::{Plan, PlanConfig, plan};

    const HERE: Option<&str> = Some("here");

    fn name() -> ServiceName {
        ServiceName::new("default", "web")
    }

    fn port(name: &str, port: u16) -> ServicePort {
        ServicePort { name: name.into(), protocol: Protocol::Tcp, port, node_port: None }
    }

    fn checked() -> Service {
        Service {
            kind: ServiceKind::LoadBalancer,
            cluster_ips: ["10.96.0.1".parse().unwrap()].into(),
            ports: [port("http", 80), port("https", 443)].into(),
            external_policy: TrafficPolicy::Local,
            health_check_node_port: Some(30_000),
            ..Service::empty(name())
        }
    }

    fn endpoint(address: &str, conditions: Conditions, node: Option<&str>) -> SliceEndpoint {
        let address = address.parse().unwrap();
        let ready = node.map_or_else(|| SliceEndpoint::new(address), |node| SliceEndpoint::on(node, address));
        SliceEndpoint { conditions, ..ready }
    }

    fn slice(family: Family, endpoints: Vec<SliceEndpoint>) -> Arc<Slice> {
        let port = |name: &str, port| SlicePort { name: name.into(), protocol: Protocol::Tcp, port };
        let ports = [port("http", 8080), port("https", 8443)].into();
        Arc::new(Slice { name: "web-1".into(), family, is_for_names_only: false, ports, endpoints: endpoints.into() })
    }

    fn snapshot(service: Service, slices: Vec<Arc<Slice>>) -> Snapshot {
        let node = Arc::new(Node { name: "here".into(), ..Node::default() });
        let mut snapshot = Snapshot { node, ..Snapshot::default() };
        snapshot.services.insert(name(), Arc::new(service));
        snapshot.slices.insert(name(), Arc::new(Slices(slices.into())));
        snapshot
    }

    fn checks(snapshot: &Snapshot, previous: &Plan) -> Vec<(Family, u16, usize)> {
        let plan = plan(snapshot, previous, &PlanConfig::default());
        plan.health_checks.iter().map(|((_, family), it)| (*family, it.port, it.local_endpoints)).collect()
    }

    fn fresh(service: Service, slices: Vec<Arc<Slice>>) -> Vec<(Family, u16, usize)> {
        checks(&snapshot(service, slices), &Plan::default())
    }

    #[test]
    fn ready_endpoints_of_this_node_count_once_each() {
        let endpoints = vec![
            endpoint("10.0.0.1", Conditions::READY, HERE),
            endpoint("10.0.0.2", Conditions::READY, HERE),
            endpoint("10.0.0.3", Conditions::READY, Some("elsewhere")),
            endpoint("10.0.0.4", Conditions::READY, None),
            endpoint("10.0.0.5", Conditions::NOT_READY, HERE),
            endpoint("10.0.0.6", Conditions::DRAINING, HERE),
        ];
        assert_eq!(fresh(checked(), vec![slice(Family::V4, endpoints)]), [(Family::V4, 30_000, 2)]);
    }

    #[test]
    fn a_node_with_draining_endpoints_only_has_none() {
        let endpoints = vec![endpoint("10.0.0.1", Conditions::DRAINING, HERE)];
        assert_eq!(fresh(checked(), vec![slice(Family::V4, endpoints)]), [(Family::V4, 30_000, 0)]);
    }

    #[test]
    fn each_family_is_checked_by_itself() {
        let cluster_ips = ["10.96.0.1", "fd00::1"].map(|it| it.parse().unwrap()).into();
        let service = Service { cluster_ips, ..checked() };
        let slices = vec![slice(Family::V4, vec![endpoint("10.0.0.1", Conditions::READY, HERE)])];
        assert_eq!(fresh(service, slices), [(Family::V4, 30_000, 1), (Family::V6, 30_000, 0)]);
    }

    #[test]
    fn only_local_load_balancers_are_checked() {
        assert_eq!(fresh(Service { kind: ServiceKind::NodePort, ..checked() }, vec![]), []);
        assert_eq!(fresh(Service { external_policy: TrafficPolicy::Cluster, ..checked() }, vec![]), []);
        assert_eq!(fresh(Service { health_check_node_port: None, ..checked() }, vec![]), []);
        assert_eq!(fresh(Service { cluster_ips: [].into(), ..checked() }, vec![]), []);
    }

    #[test]
    fn a_check_follows_its_service_and_goes_with_it() {
        let before = snapshot(checked(), vec![]);
        let first = plan(&before, &Plan::default(), &PlanConfig::default());
        let moved = snapshot(Service { health_check_node_port: Some(30_001), ..checked() }, vec![]);
        assert_eq!(checks(&moved, &first), [(Family::V4, 30_001, 0)]);
        let mut gone = before;
        gone.services.remove(&name());
        assert_eq!(checks(&gone, &first), []);
    }
}
