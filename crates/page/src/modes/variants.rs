//! Plans in which one part of a Service is different.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::{Endpoint, FrontendAddress, Plan, Pool, Reason, Refusal, Route, Routes, ServicePlan, Verdict};

use crate::picture::ServiceAnswer;

/// Of one Service: each is rendered in each mode.
const MOST_VARIANTS: usize = 96;

/// For each part of the picture, the plan in which it is different.
pub(super) fn variants(plan: &Plan, picture: &ServiceAnswer) -> Vec<(String, Plan)> {
    let mut variants = Vec::new();
    for port in plan.services.values() {
        let own = own_id(port, picture);
        frontends(plan, port, picture, &own, &mut variants);
        pools(plan, port, picture, &own, &mut variants);
        endpoints(plan, port, picture, &own, &mut variants);
    }
    variants.truncate(MOST_VARIANTS);
    variants
}

/// The id of the port in the picture.
fn own_id(port: &ServicePlan, picture: &ServiceAnswer) -> String {
    let family = if port.key.family == Family::V4 { "IPv4" } else { "IPv6" };
    let name = &port.key.name;
    let is_own = |it: &&crate::picture::parts::PortAnswer| {
        *it.name == *name.port && it.protocol == name.protocol.to_string() && it.family == family
    };
    picture.ports.iter().find(is_own).map_or(String::new(), |it| it.id.clone())
}

fn with(plan: &Plan, port: ServicePlan) -> Plan {
    let mut plan = plan.clone();
    plan.services.insert(port.key.clone(), Arc::new(port));
    plan
}

fn frontends(plan: &Plan, port: &ServicePlan, picture: &ServiceAnswer, own: &str, out: &mut Vec<(String, Plan)>) {
    for (index, frontend) in port.frontends.iter().enumerate() {
        let address = frontend.address.to_string();
        let is_meant = |it: &&crate::picture::parts::FrontendAnswer| it.port == own && it.address == address;
        let Some(shown) = picture.frontends.iter().find(is_meant) else { continue };
        let mut moved = port.clone();
        moved.frontends[index].address = elsewhere(frontend.address);
        out.push((shown.id.clone(), with(plan, moved)));
        for route in picture.routes.iter().filter(|route| route.frontend == shown.id) {
            let mut turned = port.clone();
            turn(&mut turned.frontends[index].routes, route.origin);
            out.push((route.id.clone(), with(plan, turned)));
        }
    }
}

/// Addresses that are reserved for documentation and tests.
fn elsewhere(address: FrontendAddress) -> FrontendAddress {
    match address {
        FrontendAddress::Vip(address, port) => FrontendAddress::Vip(other_address(address), port),
        FrontendAddress::NodePort(port) => FrontendAddress::NodePort(port.wrapping_add(1).max(1)),
    }
}

fn other_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::new(198, 18, 254, 254).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0xfffe, 0, 0, 0, 0, 0xfefe).into(),
    }
}

fn turn(routes: &mut Routes, origin: &str) {
    let route = match origin {
        "pod" => &mut routes.pod,
        "node" => &mut routes.node,
        _ => &mut routes.outside,
    };
    *route = match route.verdict {
        Verdict::Forward(_) => Route { masquerade: !route.masquerade, ..*route },
        Verdict::Refuse(Refusal::Drop(_)) => Route::new(Verdict::Refuse(Refusal::Reject(Reason::NoEndpoints)), false),
        Verdict::Refuse(_) => Route::new(Verdict::Refuse(Refusal::Drop(Reason::NoLocalEndpoints)), false),
    };
}

fn pools(plan: &Plan, port: &ServicePlan, picture: &ServiceAnswer, own: &str, out: &mut Vec<(String, Plan)>) {
    for pool in [Pool::Cluster, Pool::Local] {
        let is_meant = |it: &&crate::picture::parts::PoolAnswer| it.port == own && it.kind == pool.to_string();
        let (Some(shown), Some(first)) = (picture.pools.iter().find(is_meant), port.pool(pool).first()) else {
            continue;
        };
        let more: Box<[Endpoint]> = port.pool(pool).iter().chain([first]).copied().collect();
        let mut larger = port.clone();
        match pool {
            Pool::Cluster => larger.cluster = more,
            Pool::Local => larger.local = more,
        }
        out.push((shown.id.clone(), with(plan, larger)));
    }
}

fn endpoints(plan: &Plan, port: &ServicePlan, picture: &ServiceAnswer, own: &str, out: &mut Vec<(String, Plan)>) {
    for shown in picture.endpoints.iter().filter(|it| it.port == own) {
        let mut moved = port.clone();
        let lists = [&mut moved.cluster, &mut moved.local, &mut moved.draining, &mut moved.quarantined];
        let slots = lists.into_iter().flat_map(|list| list.iter_mut());
        let mut is_there = false;
        for slot in slots.filter(|slot| slot.socket().to_string() == shown.address) {
            (slot.address, is_there) = (other_address(slot.address), true);
        }
        if is_there {
            out.push((shown.id.clone(), with(plan, moved)));
        }
    }
}
