//! The objects that differ between two snapshots, in words.

use std::collections::BTreeSet;
use std::fmt::Debug;

use portolan_model::{Node, Observed, Service, ServiceKind, ServiceName, Snapshot};

use super::Cause;
use super::endpoints::slice_causes;

/// What is looked at of one change; the rest is counted as one cause.
const MOST_LOOKED_AT: usize = 256;

/// Shares that change because endpoints are new or loaded are causes only if the plan follows them.
pub(super) fn causes(
    before: &Snapshot,
    after: &Snapshot,
    services: &BTreeSet<ServiceName>,
    is_planned: bool,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    for name in services.iter().take(MOST_LOOKED_AT) {
        causes.extend(service_cause(before, after, name));
        causes.extend(slice_causes(name, before.slices.get(name), after.slices.get(name)));
        causes.extend(observed_causes(before, after, name, is_planned));
    }
    if let Some(more) = services.len().checked_sub(MOST_LOOKED_AT).filter(|more| *more > 0) {
        causes.push(Cause::new("Service", "", format!("{more} more Services differ")));
    }
    causes.extend(node_cause(&before.node, &after.node));
    causes
}

fn service_cause(before: &Snapshot, after: &Snapshot, name: &ServiceName) -> Option<Cause> {
    let what = match (before.services.get(name), after.services.get(name)) {
        (None, Some(service)) => format!("was added{}", address(service)),
        (Some(_), None) => "was deleted".to_owned(),
        (Some(old), Some(new)) if old != new => changed_fields(old, new),
        _ => return None,
    };
    Some(Cause::new("Service", name, what))
}

fn address(service: &Service) -> String {
    service.cluster_ips.first().map_or(String::new(), |address| format!(" ({}, {address})", kind(service.kind)))
}

/// As in `spec.type`.
pub(crate) fn kind(kind: ServiceKind) -> &'static str {
    match kind {
        ServiceKind::ClusterIp => "ClusterIP",
        ServiceKind::NodePort => "NodePort",
        ServiceKind::LoadBalancer => "LoadBalancer",
        ServiceKind::ExternalName => "ExternalName",
    }
}

fn changed_fields(old: &Service, new: &Service) -> String {
    let fields = [
        field("spec.type", &old.kind, &new.kind),
        field("spec.clusterIPs", &old.cluster_ips, &new.cluster_ips),
        field("spec.ports", &old.ports, &new.ports),
        field("spec.externalIPs", &old.external_ips, &new.external_ips),
        field("status.loadBalancer.ingress", &old.load_balancer_ips, &new.load_balancer_ips),
        field("spec.loadBalancerSourceRanges", &old.source_ranges, &new.source_ranges),
        named("spec.internalTrafficPolicy", &old.internal_policy, &new.internal_policy),
        named("spec.externalTrafficPolicy", &old.external_policy, &new.external_policy),
        field("spec.sessionAffinity", &old.affinity_seconds, &new.affinity_seconds),
        field("annotation portolan.io/scheduler", &old.scheduler, &new.scheduler),
        field("annotations about balancing", &old.balancing, &new.balancing),
        field("spec.healthCheckNodePort", &old.health_check_node_port, &new.health_check_node_port),
        field("spec.externalName", &old.external_name, &new.external_name),
    ];
    fields.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn field<T: PartialEq>(name: &str, old: &T, new: &T) -> Option<String> {
    (old != new).then(|| format!("{name} changed"))
}

/// With its values, whose names are those of the object.
fn named<T: PartialEq + Debug>(name: &str, old: &T, new: &T) -> Option<String> {
    (old != new).then(|| format!("{name} changed from {old:?} to {new:?}"))
}

fn observed_causes(before: &Snapshot, after: &Snapshot, name: &ServiceName, is_planned: bool) -> Vec<Cause> {
    let none = Observed::default();
    let old = before.observed.get(name).map_or(&none, |it| it);
    let new = after.observed.get(name).map_or(&none, |it| it);
    let cause =
        |endpoint: &std::net::SocketAddr, what: &str| Cause::new("Endpoint", format!("{name} {endpoint}"), what);
    let silent = new.iter().filter(|(endpoint, it)| it.silent.is_some() && old.of(*endpoint).silent.is_none());
    let answers = old.iter().filter(|(endpoint, it)| it.silent.is_some() && new.of(*endpoint).silent.is_none());
    let silent = silent.map(|(endpoint, _)| cause(endpoint, "does not answer"));
    let mut causes: Vec<Cause> = silent.chain(answers.map(|(it, _)| cause(it, "is tried again"))).collect();
    if causes.is_empty() && is_planned && old != new {
        causes.push(Cause::new("Endpoint", name, "its part of new connections follows its age and load"));
    }
    causes
}

fn node_cause(old: &Node, new: &Node) -> Option<Cause> {
    let fields = [
        field("topology.kubernetes.io/zone", &old.zone, &new.zone),
        field("status.addresses", &old.addresses, &new.addresses),
        field("spec.podCIDRs", &old.pod_ranges, &new.pod_ranges),
    ];
    let object = fields.into_iter().flatten().collect::<Vec<_>>().join("; ");
    if !object.is_empty() {
        return Some(Cause::new("Node", &new.name, object));
    }
    let is_moved = old.interface_addresses != new.interface_addresses;
    is_moved.then(|| Cause::new("Addresses", &new.name, "the addresses of this machine's interfaces changed"))
}
