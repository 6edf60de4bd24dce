//! The endpoints of one row.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use portolan_dataplane::connections::Load;
use portolan_dataplane::traffic::TrafficSample;
use portolan_model::{Protocol, ServicePortName, SliceEndpoint};
use portolan_plan::{Plan, Pool, ServicePlan};

use super::rows::{families, slice_endpoints};
use super::{TopEndpoint, Totals};

/// Those that serve, those that are not ready, and those that are gone and still have connections.
pub fn endpoints(plan: &Plan, name: &ServicePortName, sample: &TrafficSample, load: &Load) -> Vec<TopEndpoint> {
    let ports = families(plan, name);
    ports.into_iter().flat_map(|port| of_family(plan, port, sample, load)).collect()
}

fn of_family(plan: &Plan, port: &ServicePlan, sample: &TrafficSample, load: &Load) -> Vec<TopEndpoint> {
    let facts = facts(plan, port);
    let mut open: BTreeMap<SocketAddr, u32> = facts.keys().map(|socket| (*socket, 0)).collect();
    open.extend(load.of(port).endpoints);
    let shares = shares(port);
    let usage = |socket: &SocketAddr| sample.services.get(&port.key).and_then(|it| it.endpoints.get(socket));
    let row = |(socket, open): (&SocketAddr, &u32)| {
        let fact = facts.get(socket);
        let mut totals = Totals::default();
        usage(socket).into_iter().for_each(|usage| totals.add(usage));
        let pod = fact.and_then(|it| it.pod.as_ref());
        TopEndpoint {
            endpoint: socket.to_string(),
            pod: pod.map(|pod| format!("{}/{pod}", port.key.name.service.namespace)),
            node: fact.and_then(|it| it.node()).map(ToString::to_string),
            zone: fact.and_then(|it| it.zone()).map(ToString::to_string),
            state: state(port, *socket, fact.copied()).into(),
            share: shares.get(socket).copied().unwrap_or_default(),
            totals,
            open: (port.protocol() == Protocol::Tcp).then_some(*open),
        }
    };
    open.iter().map(row).collect()
}

/// What the slices say about the endpoints of a family.
fn facts<'a>(plan: &'a Plan, port: &'a ServicePlan) -> BTreeMap<SocketAddr, &'a SliceEndpoint> {
    let name = &port.key.name;
    let slices = plan.facts().slices.get(&name.service).into_iter().flat_map(|slices| &slices.0);
    let numbers: Vec<u16> = slices
        .filter(|slice| slice.family == port.key.family)
        .flat_map(|slice| slice.ports.iter().filter(|it| it.name == name.port && it.protocol == name.protocol))
        .map(|port| port.port)
        .collect();
    let of_family = |it: &&SliceEndpoint| it.address.is_ipv4() == (port.key.family == portolan_model::Family::V4);
    let serving: Vec<SocketAddr> = port.serving().map(|it| it.socket()).collect();
    let mut facts = BTreeMap::new();
    for endpoint in slice_endpoints(plan, name).filter(of_family) {
        let sockets = numbers.iter().map(|number| SocketAddr::new(endpoint.address, *number));
        let known: Vec<SocketAddr> = sockets.clone().filter(|socket| serving.contains(socket)).collect();
        // Without one that serves, slices with different ports cannot be told apart; the first number is as good as any.
        let sockets = if known.is_empty() { sockets.take(1).collect() } else { known };
        facts.extend(sockets.into_iter().map(|socket| (socket, endpoint)));
    }
    facts
}

/// In percent of the pool that clients in the cluster use.
fn shares(port: &ServicePlan) -> BTreeMap<SocketAddr, f64> {
    let pool = if port.cluster.is_empty() { Pool::Local } else { Pool::Cluster };
    let slots = port.pool(pool).len().max(1) as f64;
    let share = |count: u32| f64::from(count) / slots * 100.0;
    port.weighted(pool).into_iter().map(|(endpoint, count)| (endpoint.socket(), share(count))).collect()
}

fn state(port: &ServicePlan, socket: SocketAddr, fact: Option<&SliceEndpoint>) -> &'static str {
    let has = |list: &[portolan_plan::Endpoint]| list.iter().any(|it| it.socket() == socket);
    if has(&port.quarantined) {
        "quarantined"
    } else if has(&port.cluster) || has(&port.local) {
        "in the pool"
    } else {
        match fact {
            Some(fact) if fact.conditions.terminating => "terminating",
            Some(fact) if !fact.conditions.ready => "not ready",
            Some(_) => "draining",
            None if has(&port.draining) => "draining",
            None => "gone",
        }
    }
}
