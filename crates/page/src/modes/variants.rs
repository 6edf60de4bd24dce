//! Plans in which one part of a Service is different.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::{Endpoint, FrontendAddress, Plan, Pool, Reason, Refusal, Route, Routes, ServicePlan, Verdict};

use crate::picture::ServiceAnswer;
use crate::picture::parts::{FrontendAnswer, PoolAnswer, PortAnswer};

/// Of one Service: each is rendered in each mode.
const MOST_VARIANTS: usize = 96;

/// A part of the picture, and plans in which it is different.
pub(super) struct Variant {
    pub(super) id: String,
    /// The first of them that changes a line shows which lines are those of the part.
    pub(super) plans: Vec<Plan>,
    /// Lines with this word are the part's, too.
    pub(super) word: Option<String>,
}

impl Variant {
    fn new(id: &str, plans: Vec<Plan>) -> Self {
        Self { id: id.to_owned(), plans, word: None }
    }
}

pub(super) fn variants(plan: &Plan, picture: &ServiceAnswer) -> Vec<Variant> {
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
    let is_own =
        |it: &&PortAnswer| *it.name == *name.port && it.protocol == name.protocol.to_string() && it.family == family;
    picture.ports.iter().find(is_own).map_or(String::new(), |it| it.id.clone())
}

fn with(plan: &Plan, port: ServicePlan) -> Plan {
    let mut plan = plan.clone();
    plan.services.insert(port.key.clone(), Arc::new(port));
    plan
}

fn frontends(plan: &Plan, port: &ServicePlan, picture: &ServiceAnswer, own: &str, out: &mut Vec<Variant>) {
    for (index, frontend) in port.frontends.iter().enumerate() {
        let address = frontend.address.to_string();
        let is_meant = |it: &&FrontendAnswer| it.port == own && it.address == address;
        let Some(shown) = picture.frontends.iter().find(is_meant) else { continue };
        let mut moved = port.clone();
        moved.frontends[index].address = elsewhere(frontend.address);
        out.push(Variant::new(&shown.id, vec![with(plan, moved)]));
        let mut refusing = port.clone();
        refusing.frontends[index].routes = Routes::same(other_refusal(frontend.routes.pod));
        let refusing = with(plan, refusing);
        for route in picture.routes.iter().filter(|route| route.frontend == shown.id) {
            let mut turned = port.clone();
            turn(&mut turned.frontends[index].routes, route.origin);
            out.push(Variant::new(&route.id, vec![with(plan, turned), refusing.clone()]));
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
        Verdict::Refuse(_) => other_refusal(*route),
    };
}

fn other_refusal(route: Route) -> Route {
    let refusal = match route.verdict {
        Verdict::Refuse(Refusal::Reject(_)) => Refusal::Drop(Reason::NoLocalEndpoints),
        _ => Refusal::Reject(Reason::NoEndpoints),
    };
    Route::new(Verdict::Refuse(refusal), false)
}

/// With one endpoint more; where that changes no line, the lines of a pool are those of its endpoints.
fn pools(plan: &Plan, port: &ServicePlan, picture: &ServiceAnswer, own: &str, out: &mut Vec<Variant>) {
    for pool in [Pool::Cluster, Pool::Local] {
        let is_meant = |it: &&PoolAnswer| it.port == own && it.kind == pool.to_string();
        let (Some(shown), Some(first)) = (picture.pools.iter().find(is_meant), port.pool(pool).first()) else {
            continue;
        };
        let more = Endpoint { address: other_address(first.address), ..*first };
        let larger = port.pool(pool).iter().copied().chain([more]).collect();
        let plans = [larger, Box::default()].map(|slots| with(plan, with_pool(port, pool, slots)));
        out.push(Variant::new(&shown.id, plans.into()));
    }
}

fn with_pool(port: &ServicePlan, pool: Pool, slots: Box<[Endpoint]>) -> ServicePlan {
    match pool {
        Pool::Cluster => ServicePlan { cluster: slots, ..port.clone() },
        Pool::Local => ServicePlan { local: slots, ..port.clone() },
    }
}

/// With another port: another address would change the order of endpoints, and so the lines of others.
fn endpoints(plan: &Plan, port: &ServicePlan, picture: &ServiceAnswer, own: &str, out: &mut Vec<Variant>) {
    for shown in picture.endpoints.iter().filter(|it| it.port == own) {
        let mut moved = port.clone();
        let lists = [&mut moved.cluster, &mut moved.local, &mut moved.draining, &mut moved.quarantined];
        let slots = lists.into_iter().flat_map(|list| list.iter_mut());
        let mut address = None;
        for slot in slots.filter(|slot| slot.socket().to_string() == shown.address) {
            (slot.port, address) = (slot.port.wrapping_add(1).max(1), Some(slot.address.to_string()));
        }
        if address.is_some() {
            out.push(Variant { word: address, ..Variant::new(&shown.id, vec![with(plan, moved)]) });
        }
    }
}
