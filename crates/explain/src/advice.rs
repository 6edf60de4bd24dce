//! What to look at when a packet is refused.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use portolan_model::{Family, Service, ServiceName, Slice, SliceEndpoint, SlicePort};
use portolan_plan::{Claim, Fate, FrontendAddress, Packet, Plan, PortKey, Reason};

/// Pods, nodes or ports in one answer.
const MOST_LISTED: usize = 8;

pub(crate) fn advice(plan: &Plan, packet: &Packet, service: Option<&PortKey>, fate: &Fate) -> Vec<String> {
    let reason = match fate {
        Fate::Refuse(refusal) => refusal.reason(),
        // An address that also belongs to other programs is not refused at other ports.
        Fate::Pass => return [ports(plan, packet.destination), node_port(plan, packet)].concat(),
        Fate::Forward(_) | Fate::Stopped { .. } | Fate::Unknown { .. } => return Vec::new(),
    };
    match (reason, service) {
        (Reason::NoEndpoints, Some(key)) => unready(plan, key),
        (Reason::NoLocalEndpoints, Some(key)) => elsewhere(plan, key),
        (Reason::SourceNotAllowed, Some(key)) => allowed(plan, key),
        (Reason::UnknownPort, _) => ports(plan, packet.destination),
        (Reason::UnallocatedAddress, _) => {
            vec![format!("no Service has {}: one that had it may have been deleted", packet.destination)]
        }
        _ => Vec::new(),
    }
}

/// The Pods behind the endpoints of a Service, as `namespace/name`.
pub(crate) fn pods_of(plan: &Plan, service: &ServiceName) -> HashMap<IpAddr, String> {
    let slices = plan.facts().slices.get(service).into_iter().flat_map(|slices| slices.0.iter());
    let endpoints = slices.flat_map(|slice| &slice.endpoints);
    let named = endpoints.filter_map(|it| Some((it.address, format!("{}/{}", service.namespace, it.pod.as_ref()?))));
    named.collect()
}

/// The slices of a Service in one family.
fn slices<'a>(plan: &'a Plan, key: &'a PortKey) -> impl Iterator<Item = &'a Slice> {
    let slices = plan.facts().slices.get(&key.name.service).into_iter().flat_map(|slices| slices.0.iter());
    slices.map(|slice| &**slice).filter(|slice| slice.family == key.family && !slice.is_for_names_only)
}

fn has_port(slice: &Slice, key: &PortKey) -> bool {
    slice.ports.iter().any(|port| port.name == key.name.port && port.protocol == key.name.protocol)
}

fn unready(plan: &Plan, key: &PortKey) -> Vec<String> {
    let service = &key.name.service;
    let of_port = slices(plan, key).filter(|slice| has_port(slice, key));
    let endpoints: Vec<&SliceEndpoint> = of_port.flat_map(|slice| &slice.endpoints).collect();
    if !endpoints.is_empty() {
        let lines = endpoints.iter().map(|it| format!("{} {}", described(service, it), state(it)));
        return shortened(lines.collect());
    }
    let filled = slices(plan, key).filter(|slice| !slice.endpoints.is_empty());
    let others: Vec<String> = filled.flat_map(|slice| slice.ports.iter().map(port)).collect();
    if !others.is_empty() {
        let list = shortened(others).join(", ");
        return vec![format!("the EndpointSlices have no port named {:?}: theirs are {list}", key.name.port)];
    }
    let (namespace, name) = (&service.namespace, &service.name);
    let command = format!("kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name}");
    vec![format!("no EndpointSlice has an endpoint: does spec.selector match the labels of a pod? ({command})")]
}

fn described(service: &ServiceName, endpoint: &SliceEndpoint) -> String {
    let node = endpoint.node().map_or(String::new(), |node| format!(" on {node}"));
    match &endpoint.pod {
        Some(pod) => format!("pod {}/{pod} ({}{node})", service.namespace, endpoint.address),
        None => format!("endpoint {}{node}", endpoint.address),
    }
}

fn state(endpoint: &SliceEndpoint) -> &'static str {
    match (endpoint.conditions.terminating, endpoint.conditions.serving) {
        (true, _) => "is terminating",
        (false, false) => "is not ready",
        (false, true) => "is not usable here (topology, weight or quarantine)",
    }
}

fn port(port: &SlicePort) -> String {
    format!("{:?} ({}/{})", port.name, port.port, port.protocol)
}

/// The nodes that have a ready endpoint.
fn elsewhere(plan: &Plan, key: &PortKey) -> Vec<String> {
    let mut nodes = BTreeMap::<&str, usize>::new();
    let of_port = slices(plan, key).filter(|slice| has_port(slice, key));
    for endpoint in of_port.flat_map(|slice| &slice.endpoints).filter(|it| it.conditions.ready) {
        *nodes.entry(endpoint.node().map(|node| &**node).unwrap_or("an unknown node")).or_default() += 1;
    }
    let list: Vec<String> = nodes.iter().map(|(node, count)| format!("{node} ({count})")).collect();
    let here = &plan.facts().node.name;
    match list.is_empty() {
        true => vec![format!("no ready endpoint runs on any node, this one is {here}")],
        false => vec![format!("ready endpoints run on {}; this node is {here}", shortened(list).join(", "))],
    }
}

fn allowed(plan: &Plan, key: &PortKey) -> Vec<String> {
    let ranges = |service: &Service| -> Vec<String> { service.source_ranges.iter().map(ToString::to_string).collect() };
    let service = plan.facts().services.get(&key.name.service);
    service.map(|service| format!("allowed are {}", shortened(ranges(service)).join(", "))).into_iter().collect()
}

/// The ports that Services have at this address.
fn ports(plan: &Plan, address: IpAddr) -> Vec<String> {
    let port = |claim: &Claim| match claim.address {
        FrontendAddress::Vip(_, port) => Some(format!("{port}/{} ({})", claim.protocol, claim.holder)),
        FrontendAddress::NodePort(_) => None,
    };
    let mut list: Vec<String> = plan.claims.at(address).filter_map(port).collect();
    list.dedup();
    match list.is_empty() {
        true => Vec::new(),
        false => vec![format!("{address} has the ports {}", shortened(list).join(", "))],
    }
}

/// Where a node port is served, if the packet has its number and another address.
fn node_port(plan: &Plan, packet: &Packet) -> Vec<String> {
    let (family, address) = (Family::of(packet.destination), FrontendAddress::NodePort(packet.port));
    let Some(claim) = plan.claims.holder(family, address, packet.protocol) else { return Vec::new() };
    let served: Vec<String> = plan.node.node_port_addresses(family).map(|it| it.to_string()).collect();
    let served = if served.is_empty() { "no address of this machine".into() } else { shortened(served).join(", ") };
    vec![format!(
        "{} is a node port of {}, which is served at {served} (--nodeport-addresses)",
        packet.port, claim.holder
    )]
}

fn shortened(mut list: Vec<String>) -> Vec<String> {
    let more = list.len().saturating_sub(MOST_LISTED);
    list.truncate(MOST_LISTED);
    list.extend((more > 0).then(|| format!("and {more} more")));
    list
}
