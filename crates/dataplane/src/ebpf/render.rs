//! From plan to entries.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use portolan_model::{Family, Protocol};
use portolan_plan::{Endpoint, Frontend as Planned, FrontendAddress, NodePlan, Pool, PortKey, ServicePlan, Verdict};
use ring::digest::{Context, SHA256};

use super::objects::{Frontend, FrontendKey, Key, PoolName, Route, SLOTS, Value};

type Entry = (Key, Value);

const POOLS: [Pool; 2] = [Pool::Cluster, Pool::Local];

/// The addresses of the node that serve node ports. They follow the addresses of the interfaces.
pub(super) fn node(node: &NodePlan) -> Vec<Entry> {
    let mut entries = Vec::new();
    for family in Family::BOTH {
        let served = node.node_port_addresses(family).filter(|address| !address.is_loopback());
        entries.extend(served.map(|address| (Key::Own(address), Value::Own { node_only: false })));
        if node.family(family).loopback_node_ports {
            entries.push((Key::Own(Ipv4Addr::LOCALHOST.into()), Value::Own { node_only: true }));
        }
    }
    entries
}

pub(super) fn service(node: &NodePlan, service: &ServicePlan) -> Vec<Entry> {
    let names = POOLS.map(|pool| pool_name(service, pool));
    let number = service_number(&service.key);
    let mut entries = Vec::new();
    for planned in &service.frontends {
        entries.extend(whole_address(node, planned));
        let frontend = frontend(service, planned, names, number);
        entries.push((frontend_key(service, planned), Value::Frontend(Box::new(frontend))));
    }
    for (pool, name) in POOLS.into_iter().zip(names) {
        pool_entries(service, pool, name, &mut entries);
    }
    entries
}

/// A frontend that only the rules serve has an entry, too: without it, the entry of the whole address would refuse it.
fn frontend(service: &ServicePlan, planned: &Planned, names: [PoolName; 2], number: u64) -> Frontend {
    let pool = |pool: Pool, name| match leads_to(planned, pool) {
        true => (name, service.pool(pool).len() as u32),
        false => (PoolName::default(), 0),
    };
    Frontend {
        pools: [pool(Pool::Cluster, names[0]), pool(Pool::Local, names[1])],
        service: number,
        affinity: service.affinity_seconds.unwrap_or(0),
        routes: [planned.at_connect.pod, planned.at_connect.node].map(route),
        slots: if has_room(service, planned) { endpoints(service, planned).collect() } else { Vec::new() },
    }
}

fn leads_to(planned: &Planned, pool: Pool) -> bool {
    [planned.at_connect.pod, planned.at_connect.node].contains(&Some(Verdict::Forward(pool)))
}

/// The endpoints of the pools that the frontend leads to.
fn endpoints(service: &ServicePlan, planned: &Planned) -> impl Iterator<Item = SocketAddr> {
    let pools = POOLS.into_iter().filter(|pool| leads_to(planned, *pool));
    pools.flat_map(|pool| service.pool(pool)).map(Endpoint::socket)
}

/// Whether the entry of the frontend has room for them.
fn has_room(service: &ServicePlan, planned: &Planned) -> bool {
    endpoints(service, planned).nth(SLOTS).is_none()
}

fn route(decision: Option<Verdict>) -> Route {
    match decision {
        Some(Verdict::Forward(Pool::Cluster)) => Route::Cluster,
        Some(Verdict::Forward(Pool::Local)) => Route::Local,
        Some(Verdict::Refuse(_)) => Route::Reject,
        None => Route::PassOn,
    }
}

fn frontend_key(service: &ServicePlan, planned: &Planned) -> Key {
    Key::Frontend(match planned.address {
        FrontendAddress::Vip(address, port) => FrontendKey::Vip(SocketAddr::new(address, port), service.protocol()),
        FrontendAddress::NodePort(port) => FrontendKey::NodePort(service.key.family, port, service.protocol()),
    })
}

/// The other ports of an address that is used by Services alone are refused.
fn whole_address(node: &NodePlan, planned: &Planned) -> Option<Entry> {
    let FrontendAddress::Vip(address, _) = planned.address else { return None };
    let refuses = planned.kind.owns_address();
    let service = address_number(Family::of(address));
    let pod = if node.limits.only_node_at_connect { Route::PassOn } else { Route::Reject };
    let reject = Frontend { routes: [pod, Route::Reject], service, ..Frontend::default() };
    refuses.then(|| (Key::Frontend(FrontendKey::Address(address)), Value::Frontend(Box::new(reject))))
}

fn pool_entries(service: &ServicePlan, pool: Pool, name: PoolName, entries: &mut Vec<Entry>) {
    let mut frontends = service.frontends.iter().filter(|planned| leads_to(planned, pool)).peekable();
    let has_members = service.affinity_seconds.is_some() || service.protocol() == Protocol::Udp;
    let has_members = has_members && frontends.peek().is_some();
    let has_slots = frontends.any(|planned| !has_room(service, planned));
    for (slot, endpoint) in (0..).zip(service.pool(pool)) {
        let (family, endpoint) = (service.key.family, endpoint.socket());
        if has_slots {
            entries.push((Key::Slot { family, pool: name, slot }, Value::Endpoint(endpoint)));
        }
        if has_members {
            entries.push((Key::Member { pool: name, endpoint }, Value::Member));
        }
    }
}

/// Names and addresses come from the API: only a cryptographic hash keeps a Service from choosing the pool of another one.
fn pool_name(service: &ServicePlan, pool: Pool) -> PoolName {
    let mut hash = name_of(&service.key);
    for endpoint in service.pool(pool) {
        add_endpoint(&mut hash, endpoint);
    }
    PoolName(finish(hash))
}

/// By which the hooks know a Service port.
pub(super) fn service_number(key: &PortKey) -> u64 {
    finish(name_of(key))
}

/// By which the hooks count what they refuse at addresses without such a port. No hash is as small.
pub(super) fn address_number(family: Family) -> u64 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

fn name_of(key: &PortKey) -> Context {
    let mut hash = Context::new(&SHA256);
    // No name contains a slash or a colon, so that two Service ports have different texts.
    hash.update(format!("{}/{}/{}\n", key.name, key.name.protocol, key.family).as_bytes());
    hash
}

fn add_endpoint(hash: &mut Context, endpoint: &Endpoint) {
    match endpoint.address {
        IpAddr::V4(address) => hash.update(&address.octets()),
        IpAddr::V6(address) => hash.update(&address.octets()),
    }
    hash.update(&endpoint.port.to_be_bytes());
}

/// Zero means nothing in the maps.
fn finish(hash: Context) -> u64 {
    let digest = hash.finish();
    let first = digest.as_ref().first_chunk().copied().map_or(0, u64::from_be_bytes);
    first.max(1)
}
