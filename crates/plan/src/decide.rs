//! From a Service in the snapshot to the plans of its ports.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Family, Service, ServiceName, ServicePort, ServicePortName, Slices, Snapshot};

use crate::balance::Balance;
use crate::connect::AtConnect;
use crate::frontends::Context;
use crate::health;
use crate::node::NodePlan;
use crate::open_connections::OpenConnections;
use crate::pools::{Chooser, Pools};
use crate::service::{PortKey, ServicePlan};

/// Plans every port of a Service that has a ClusterIP; others get no rules. Returns how many it adds to the list.
pub(crate) fn decide(name: &ServiceName, facts: &Snapshot, node: &NodePlan, decided: &mut Vec<ServicePlan>) -> usize {
    let Some(service) = facts.services.get(name) else { return 0 };
    let before = decided.len();
    let none = Slices::default();
    let slices = facts.slices.get(name).map_or(&none, |slices| slices);
    let families = service.cluster_ips.iter().map(|address| (Family::of(*address), *address));
    let ports = families.flat_map(|(family, address)| service.ports.iter().map(move |port| (family, address, port)));
    let balancing = service.balancing.as_deref();
    let balance = Balance::decide(balancing, &node.balancing, node.limits);
    let chooser = Chooser { node, balancing, balance, observed: facts.observed.get(name).map(|it| &**it) };
    decided.extend(ports.map(|(family, address, port)| decide_port(service, port, family, address, slices, &chooser)));
    decided.len() - before
}

fn decide_port(
    service: &Service,
    port: &ServicePort,
    family: Family,
    cluster_ip: IpAddr,
    slices: &Slices,
    chooser: &Chooser<'_>,
) -> ServicePlan {
    let context = Context::new(service, port, family, chooser.node, chooser.balance.selection());
    let pools = Pools::choose(slices, port, family, context.wanted_pools(), chooser);
    let name = ServicePortName { service: service.name.clone(), port: port.name.clone(), protocol: port.protocol };
    let open_connections = OpenConnections::decide(chooser.balancing, &chooser.node.balancing, port.protocol);
    let mut frontends = context.frontends(cluster_ip, &pools);
    if open_connections.are_ended() {
        frontends.iter_mut().for_each(|frontend| frontend.at_connect = AtConnect::default());
    }
    ServicePlan {
        key: PortKey { name: Arc::new(name), family },
        frontends,
        conflicts: [].into(),
        taken_addresses: [].into(),
        cluster: pools.cluster,
        local: pools.local,
        draining: pools.draining,
        quarantined: pools.quarantined,
        balance: chooser.balance,
        open_connections,
        affinity_seconds: service.affinity_seconds,
        scheduler: service.scheduler.clone(),
        preserve_destination: service.preserve_destination && chooser.node.limits.load_balancers.is_some(),
        health_check_port: health::port(service, family),
        forwarded_health_port: health::forwarded_port(service, family, &chooser.node.limits),
    }
}
