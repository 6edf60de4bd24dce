//! The plan, and what of it a new snapshot changes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Family, OrdMap, ServiceName, Snapshot};

use crate::changed::changed_services;
use crate::claims::{Claim, Claims};
use crate::config::PlanConfig;
use crate::decide;
use crate::health::{self, HealthCheck};
use crate::node::NodePlan;
use crate::service::{PortKey, ServicePlan};

/// Everything decided for one node. Cheap to clone; Services that did not change keep their `Arc` from plan to plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub node: Arc<NodePlan>,
    pub services: OrdMap<PortKey, Arc<ServicePlan>>,
    /// All claims to addresses and ports; of several claims to the same one, the first wins.
    pub claims: Claims,
    /// The health checks that this node answers, for each family of a Service.
    pub health_checks: OrdMap<(ServiceName, Family), HealthCheck>,
    /// The number of endpoints of all Service ports.
    endpoints: usize,
    /// The snapshot behind this plan, to find what the next snapshot changes.
    facts: Snapshot,
}

impl Plan {
    pub fn facts(&self) -> &Snapshot {
        &self.facts
    }

    /// Whether the address belongs to this node or to one of its pods.
    pub fn is_on_node(&self, address: IpAddr) -> bool {
        self.node.owns(address) || self.facts.node.pod_ranges.iter().any(|range| range.contains(&address))
    }

    /// Whether the address is one of the node or of a pod.
    pub fn is_inside(&self, address: IpAddr) -> bool {
        let pods = self.node.family(Family::of(address)).pods.as_ref();
        self.is_on_node(address) || pods.is_some_and(|pods| pods.detects(address, None))
    }

    /// Whether the address is used by Services alone, so that its other ports are refused. In ipvs mode all Service
    /// addresses are local to the node, and such a packet would otherwise reach a process of the node.
    pub fn owns_address(&self, address: IpAddr) -> bool {
        let limits = &self.node.limits;
        let bound = limits.virtual_servers && !self.node.owns(address);
        limits.load_balancers.is_none() && self.claims.any_at(address, |kind| kind.owns_address() || bound)
    }
}

/// Two plans are equal if their decisions are; the snapshots may differ in what does not matter.
impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
            && self.services == other.services
            && self.claims == other.claims
            && self.health_checks == other.health_checks
    }
}

/// Plans what the snapshot changes against the previous plan, and keeps the rest.
pub fn plan(snapshot: &Snapshot, previous: &Plan, config: &PlanConfig) -> Plan {
    let mut node = NodePlan::decide(snapshot, config);
    node.is_large = previous.node.is_large;
    let node = if node == *previous.node { previous.node.clone() } else { Arc::new(node) };
    let changed = match node.treats_services_like(&previous.node) {
        true => changed_services(&previous.facts, snapshot),
        false => all_services(previous, snapshot),
    };
    let mut next = Plan { node, facts: snapshot.clone(), ..previous.clone() };
    next.replan(&changed);
    next.measure();
    next
}

/// The same threshold as kube-proxy.
const LARGE: usize = 1000;
/// Below this a large node is no longer large. The gap keeps endpoints that come and go around the threshold from
/// rewriting all rules.
const NOT_LARGE: usize = 900;

impl Plan {
    fn replan(&mut self, changed: &BTreeSet<ServiceName>) {
        let (mut rivals, mut names) = (BTreeSet::new(), Vec::with_capacity(changed.len()));
        // One list for all Services: a small one for each would leave holes in the heap between what stays.
        let mut decided = Vec::with_capacity(changed.len());
        for name in changed {
            let count = decide::decide(name, &self.facts, &self.node, &mut decided);
            self.update_claims(name, &decided[decided.len() - count..], &mut rivals);
            self.check_again(name);
            names.push((name, count));
        }
        for name in rivals.difference(changed) {
            names.push((name, decide::decide(name, &self.facts, &self.node, &mut decided)));
        }
        let mut decided = decided.into_iter();
        for (name, count) in names {
            self.replace(name, decided.by_ref().take(count));
        }
    }

    /// Replaces the claims of a Service, and collects every other Service that this affects. Most changes are those of
    /// endpoints, which leave the claims as they are.
    fn update_claims(&mut self, name: &ServiceName, ports: &[ServicePlan], rivals: &mut BTreeSet<ServiceName>) {
        let old = sorted(self.port_plans(name).flat_map(|(_, port)| port.claims()));
        let new = sorted(ports.iter().flat_map(ServicePlan::claims));
        if old == new {
            return;
        }
        for claim in old {
            self.claims.remove(&claim);
            rivals.extend(self.claims.rivals(&claim, &self.node));
        }
        for claim in new {
            rivals.extend(self.claims.rivals(&claim, &self.node));
            self.claims.insert(claim);
        }
    }

    fn check_again(&mut self, name: &ServiceName) {
        let service = self.facts.services.get(name);
        for family in Family::BOTH {
            let key = (name.clone(), family);
            match service.and_then(|service| health::decide(service, family, &self.facts, &self.node)) {
                Some(check) if self.health_checks.get(&key) == Some(&check) => {}
                Some(check) => _ = self.health_checks.insert(key, check),
                None => _ = self.health_checks.remove(&key),
            }
        }
    }

    fn measure(&mut self) {
        let is_large = self.endpoints > if self.node.is_large { NOT_LARGE } else { LARGE };
        if is_large != self.node.is_large {
            self.node = Arc::new(NodePlan { is_large, ..(*self.node).clone() });
        }
    }

    fn replace(&mut self, name: &ServiceName, ports: impl Iterator<Item = ServicePlan>) {
        let mut stale: BTreeSet<PortKey> = self.port_plans(name).map(|(key, _)| key.clone()).collect();
        for mut port in ports {
            port.drop_lost_frontends(&self.claims, &self.node);
            stale.remove(&port.key);
            self.put(port);
        }
        for key in stale {
            self.endpoints -= self.services.remove(&key).map_or(0, |port| port.n_endpoints());
        }
    }

    /// Keeps the old `Arc` when the decision is the same, so that nothing downstream sees a change.
    fn put(&mut self, port: ServicePlan) {
        if self.services.get(&port.key).is_none_or(|old| **old != port) {
            self.endpoints += port.n_endpoints();
            let old = self.services.insert(port.key.clone(), Arc::new(port));
            self.endpoints -= old.map_or(0, |port| port.n_endpoints());
        }
    }

    /// The plans of all ports of one Service, both families.
    pub fn port_plans(&self, name: &ServiceName) -> impl Iterator<Item = (&PortKey, &Arc<ServicePlan>)> {
        self.services.range(PortKey::first_of(name)..).take_while(move |(key, _)| key.name.service == *name)
    }
}

fn sorted(claims: impl Iterator<Item = Claim>) -> Vec<Claim> {
    let mut claims: Vec<Claim> = claims.collect();
    claims.sort_unstable();
    claims
}

fn all_services(previous: &Plan, snapshot: &Snapshot) -> BTreeSet<ServiceName> {
    previous.facts.services.keys().chain(snapshot.services.keys()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use portolan_model::{Protocol, Service, ServicePort, Slice, SliceEndpoint, SlicePort, Slices};

    use super::*;

    fn snapshot(endpoints: u32) -> Snapshot {
        let name = ServiceName::new("default", "web");
        let endpoint = |number: u32| SliceEndpoint::new(std::net::Ipv4Addr::from(0x0a00_0000 + number).into());
        let service = Service {
            cluster_ips: ["10.96.0.1".parse().unwrap()].into(),
            ports: [ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None }].into(),
            ..Service::empty(name.clone())
        };
        let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }].into();
        let endpoints = (0..endpoints).map(endpoint).collect();
        let slice = Slice { name: "web".into(), family: Family::V4, is_for_names_only: false, ports, endpoints };
        let mut snapshot = Snapshot::default();
        snapshot.services.insert(name.clone(), Arc::new(service));
        snapshot.slices.insert(name, Arc::new(Slices([Arc::new(slice)].into())));
        snapshot
    }

    #[test]
    fn around_the_threshold_the_node_does_not_change_with_every_endpoint() {
        let mut last = Plan::default();
        let mut follow = |endpoints| {
            last = plan(&snapshot(endpoints), &last, &PlanConfig::default());
            last.node.is_large
        };
        assert_eq!([1000, 1001, 1000, 999, 1002, 901].map(&mut follow), [false, true, true, true, true, true]);
        assert_eq!([900, 999, 1000, 1001].map(&mut follow), [false, false, false, true]);
    }
}
