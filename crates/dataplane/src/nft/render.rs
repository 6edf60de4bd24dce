//! From plan to objects.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use portolan_kernel::nftables::Verdict;
use portolan_model::Family;
use portolan_plan::{Frontend, FrontendAddress, NodePlan, NodePortMatch, Pool, ServicePlan};

use super::affinity::affinity;
use super::chains::node_chains;
use super::dispatch_key::Flags;
use super::elements::{ElementKey, SourceKey};
use super::objects::{Chain, Key, Value};
use super::routes::{LOCAL_OFFSET, Shape};
use super::sets::SetName;
use super::turns::turns;
use super::{Nftables, SharedChains};

type Object = (Key, Value);

const LONGEST_COMMENT: usize = 128;
/// More than the Services of one cluster use at one time.
const MOST_SHARED_CHAINS: usize = 1024;

/// What a node has even without Services.
pub(super) fn node(mode: &Nftables, node: &NodePlan, family: Family) -> Vec<Object> {
    let plan = node.family(family);
    let mut objects: Vec<Object> = mode.sets().map(|set| set_object(set, family)).collect();
    for (name, chain) in node_chains(family, plan, mode) {
        objects.push((Key::Chain(family, name), Value::Chain(Arc::new(chain))));
    }
    if let NodePortMatch::Only(addresses) = &plan.node_ports {
        let element = |address| Key::Element(family, SetName::NodePortAddresses, ElementKey::Address(address));
        let loopback = plan.loopback_node_ports.then_some(Ipv4Addr::LOCALHOST.into());
        let served = addresses.iter().copied().chain(loopback).filter(|address| Family::of(*address) == family);
        objects.extend(served.map(|address| (element(address), Value::Member)));
    }
    objects
}

fn set_object(set: SetName, family: Family) -> Object {
    (Key::Set(family, set.name().into()), Value::Set(Arc::new(set.spec(family))))
}

pub(super) fn service(mode: &Nftables, node: &NodePlan, service: &ServicePlan) -> Vec<Object> {
    let mut objects = Vec::with_capacity(8 + service.frontends.len() * (2 + service.cluster.len()));
    let comment = comment(service);
    for frontend in &service.frontends {
        let shape = shape(mode, node, service, frontend);
        shared_chains(mode, &shape, &mut objects);
        objects.push(dispatch(&shape));
        objects.push(entry(service, frontend, &shape, &comment));
        slots(service, frontend, &mut objects);
        sources(service, frontend, &mut objects);
        owned_address(service, frontend, &mut objects);
    }
    affinity(service, &mut objects);
    turns(service, &mut objects);
    hairpins(service, &mut objects);
    objects
}

/// The name of the Service port, cut to the length of a comment of `nft`.
fn comment(service: &ServicePlan) -> Arc<str> {
    let name = service.key.to_string();
    name[..name.floor_char_boundary(LONGEST_COMMENT)].into()
}

fn shape<'a>(mode: &Nftables, node: &'a NodePlan, service: &ServicePlan, frontend: &Frontend) -> Shape<'a> {
    Shape {
        family: service.key.family,
        flags: Flags {
            is_node_port: Shape::is_node_port(frontend.address),
            remembers_clients: service.affinity_seconds.is_some(),
            has_sources: frontend.sources.is_some(),
            selection: service.balance.selection(),
        },
        routes: frontend.routes,
        cluster_size: service.cluster.len(),
        local_size: service.local.len(),
        node,
        mark: mode.mark,
    }
}

fn shared_chains(mode: &Nftables, shape: &Shape<'_>, objects: &mut Vec<Object>) {
    for (name, part) in shape.chains() {
        let chain = mode.shared_chain(shape.node, shape.family, &name, || shape.build(part).1);
        objects.push((Key::Chain(shape.family, name), Value::Chain(chain)));
    }
}

impl Nftables {
    fn shared_chain(
        &self,
        node: &NodePlan,
        family: Family,
        name: &Arc<str>,
        build: impl FnOnce() -> Chain,
    ) -> Arc<Chain> {
        let mut chains = self.chains.lock().expect("no thread panics while it holds the chains");
        let detectors = node.families.each_ref().map(|family| family.pods.clone());
        if chains.detectors != detectors {
            *chains = SharedChains { detectors, made: HashMap::new() };
        }
        chains.make_room();
        chains.made.entry((family, name.clone())).or_insert_with(|| Arc::new(build())).clone()
    }
}

impl SharedChains {
    /// Names include the sizes of pools: over the months there would be thousands, most of them in use no longer.
    fn make_room(&mut self) {
        if self.made.len() >= MOST_SHARED_CHAINS {
            self.made.clear();
        }
    }
}

fn element(service: &ServicePlan, set: SetName, key: ElementKey, value: Value) -> Object {
    (Key::Element(service.key.family, set, key), value)
}

/// The chain of this dispatch key, for all frontends that have it.
fn dispatch(shape: &Shape<'_>) -> Object {
    let key = Key::Element(shape.family, SetName::Ways, ElementKey::DispatchKey(shape.dispatch_key()));
    (key, Value::Verdict(Verdict::Goto(shape.entry()).into()))
}

fn entry(service: &ServicePlan, frontend: &Frontend, shape: &Shape<'_>, comment: &Arc<str>) -> Object {
    let set = vip_or_node_port(frontend, SetName::Services, SetName::NodePorts);
    let key = ElementKey::frontend(frontend.address, service.protocol());
    element(service, set, key, Value::frontend(shape.dispatch_key(), Some(comment.clone())))
}

/// The endpoints of both pools, as far as the frontend uses them.
fn slots(service: &ServicePlan, frontend: &Frontend, objects: &mut Vec<Object>) {
    let set = vip_or_node_port(frontend, SetName::Endpoints, SetName::NodePortEndpoints);
    for (pool, offset) in [(Pool::Cluster, 0), (Pool::Local, LOCAL_OFFSET)] {
        if !frontend.routes.use_pool(pool) {
            continue;
        }
        for (endpoint, slot) in service.pool(pool).iter().zip(offset..) {
            let key = ElementKey::slot(frontend.address, service.protocol(), slot);
            objects.push(element(service, set, key, Value::Endpoint(endpoint.address, endpoint.port)));
        }
    }
}

fn sources(service: &ServicePlan, frontend: &Frontend, objects: &mut Vec<Object>) {
    let FrontendAddress::Vip(address, port) = frontend.address else { return };
    for range in frontend.sources.iter().flatten() {
        let source = SourceKey { address, port, protocol: service.protocol(), range: *range };
        objects.push(element(service, SetName::Sources, ElementKey::Source(Box::new(source)), Value::Member));
    }
}

fn owned_address(service: &ServicePlan, frontend: &Frontend, objects: &mut Vec<Object>) {
    if let (true, FrontendAddress::Vip(address, _)) = (frontend.kind.owns_address(), frontend.address) {
        objects.push(element(service, SetName::ClusterIps, ElementKey::Address(address), Value::Member));
    }
}

fn hairpins(service: &ServicePlan, objects: &mut Vec<Object>) {
    for endpoint in service.cluster.iter().chain(&service.local).filter(|endpoint| endpoint.may_be_here) {
        let key = ElementKey::Hairpin(endpoint.address);
        objects.push(element(service, SetName::Hairpins, key, Value::Member));
    }
}

fn vip_or_node_port(frontend: &Frontend, vip: SetName, node_port: SetName) -> SetName {
    if Shape::is_node_port(frontend.address) { node_port } else { vip }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pools of ever new sizes.
    #[test]
    fn shared_chains_that_were_made_once_do_not_stay_for_ever() {
        let (mode, node) = (Nftables::new(14), NodePlan::default());
        for size in 0..3 * MOST_SHARED_CHAINS {
            let name: Arc<str> = format!("cluster-{size}").into();
            mode.shared_chain(&node, Family::V4, &name, || Chain { hook: None, rules: Vec::new() });
        }
        assert!(mode.chains.lock().unwrap().made.len() <= MOST_SHARED_CHAINS);
    }
}
