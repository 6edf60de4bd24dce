//! From the destination of a question to addresses and ports.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_model::{Family, Protocol, Service, ServiceKind, ServicePort, SlicePort};
use portolan_plan::{Claim, FrontendAddress};

use super::known::{Found, Known, Wanted};
use super::source::host;
use super::suggest::{best, did_you_mean, distance, limit};
use super::term::{Destination, Kind, Name, Place, Port, Via};
use crate::printable::printable;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) label: Option<String>,
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) protocol: Protocol,
}

pub(super) fn targets(known: &Known<'_>, asked: &Destination, near: Option<&str>) -> Result<Vec<Target>, String> {
    match &asked.place {
        Place::Address(address) => of_address(known, *address, asked),
        Place::Named(term) => match meant(known, term, near)? {
            Found::Service(service) => of_service(known, &service, via(term), asked),
            found => of_host(known, &found, asked),
        },
    }
}

/// A bare name is that of a Service, or else that of a pod or node.
fn meant(known: &Known<'_>, term: &Name, near: Option<&str>) -> Result<Found, String> {
    let services = known.candidates(term, Wanted::Services);
    let candidates = if services.is_empty() { known.candidates(term, Wanted::Hosts) } else { services };
    known.only(term, candidates, near)
}

fn via(term: &Name) -> Via {
    match term.kind {
        Kind::Service(via) => via,
        _ => Via::ClusterIp,
    }
}

/// Without a port, those that Services have there.
fn of_address(known: &Known<'_>, address: IpAddr, asked: &Destination) -> Result<Vec<Target>, String> {
    if let Some(Port::Number(port)) = asked.port {
        let protocol = asked.protocol.unwrap_or(Protocol::Tcp);
        return Ok(vec![Target { label: None, address, port, protocol }]);
    }
    let is_meant = |claim: &&Claim| match &asked.port {
        Some(Port::Name(name)) => *claim.holder.name.port == **name,
        _ => true,
    };
    let mut targets: Vec<Target> = known.plan.claims.at(address).filter(is_meant).filter_map(of_claim).collect();
    targets.dedup_by_key(|target| (target.port, target.protocol));
    if targets.is_empty() {
        return Err(format!("no Service has a port like that at {address}: write {address} with the number of a port"));
    }
    Ok(targets)
}

fn of_claim(claim: &Claim) -> Option<Target> {
    let FrontendAddress::Vip(address, port) = claim.address else { return None };
    let label = printable(&format!("svc/{}", claim.holder)).into_owned();
    Some(Target { label: Some(label), address, port, protocol: claim.protocol })
}

fn of_host(known: &Known<'_>, found: &Found, asked: &Destination) -> Result<Vec<Target>, String> {
    let host = host(found)?;
    let label = found.label();
    let ports: BTreeSet<(u16, Protocol)> = match &asked.port {
        Some(Port::Number(number)) => [(*number, asked.protocol.unwrap_or(Protocol::Tcp))].into(),
        port => endpoint_ports(known, &host.addresses, port.as_ref()),
    };
    if ports.is_empty() {
        return Err(format!("no Service leads to such a port of {label}: write the number of the port"));
    }
    let each = host.addresses.iter().flat_map(|address| ports.iter().map(move |port| (*address, *port)));
    let target =
        |(address, (port, protocol))| Target { label: Some(format!("{label}:{port}")), address, port, protocol };
    Ok(each.map(target).collect())
}

/// The ports of slices that list these addresses.
fn endpoint_ports(known: &Known<'_>, addresses: &[IpAddr], port: Option<&Port>) -> BTreeSet<(u16, Protocol)> {
    let is_meant = |it: &&SlicePort| match port {
        Some(Port::Name(name)) => *it.name == **name,
        _ => true,
    };
    let slices = known.facts.slices.values().flat_map(|slices| slices.0.iter());
    let listing = slices.filter(|slice| slice.endpoints.iter().any(|it| addresses.contains(&it.address)));
    listing.flat_map(|slice| slice.ports.iter().filter(is_meant)).map(|it| (it.port, it.protocol)).collect()
}

fn of_service(known: &Known<'_>, service: &Service, via: Via, asked: &Destination) -> Result<Vec<Target>, String> {
    let name = printable(&service.name.to_string()).into_owned();
    if let Some(external) = service.external_name.as_ref().filter(|_| service.kind == ServiceKind::ExternalName) {
        let external = printable(external);
        return Err(format!("svc/{name} is an ExternalName: DNS answers with {external}, and no rule is concerned"));
    }
    if !known.facts.services.contains_key(&service.name) {
        return Err(format!("svc/{name} is served by another proxy (service.kubernetes.io/service-proxy-name)"));
    }
    if service.cluster_ips.is_empty() {
        return of_headless(known, service, asked);
    }
    let ports = ports(service, via, asked)?;
    let addresses = addresses(known, service, via)?;
    let each = addresses.iter().flat_map(|address| ports.iter().map(move |port| (*address, port)));
    let kind = word(via);
    let target = |(address, (title, number, protocol)): (IpAddr, &Asked)| Target {
        label: Some(printable(&format!("{kind}/{}:{title}", service.name)).into_owned()),
        address,
        port: *number,
        protocol: *protocol,
    };
    Ok(each.map(target).collect())
}

/// What a port is called, its number at this address, and its protocol.
type Asked = (String, u16, Protocol);

fn word(via: Via) -> &'static str {
    match via {
        Via::ClusterIp => "svc",
        Via::LoadBalancer => "lb",
        Via::ExternalIp => "externalip",
        Via::NodePort => "nodeport",
    }
}

fn ports(service: &Service, via: Via, asked: &Destination) -> Result<Vec<Asked>, String> {
    let number = |port: &ServicePort| if via == Via::NodePort { port.node_port } else { Some(port.port) };
    let is_of_protocol = |port: &&ServicePort| asked.protocol.is_none_or(|protocol| port.protocol == protocol);
    let is_meant = |port: &&ServicePort| match &asked.port {
        None => true,
        Some(Port::Number(wanted)) => port.port == *wanted || via == Via::NodePort && port.node_port == Some(*wanted),
        Some(Port::Name(name)) => *port.name == **name,
    };
    let meant = service.ports.iter().filter(is_of_protocol).filter(is_meant);
    let found: Vec<Asked> = meant.filter_map(|port| Some((title(port), number(port)?, port.protocol))).collect();
    match &asked.port {
        _ if !found.is_empty() => Ok(found),
        // The refusal of a port that does not exist is an answer, too.
        Some(Port::Number(wanted)) if via != Via::NodePort => {
            Ok(vec![(wanted.to_string(), *wanted, asked.protocol.unwrap_or(Protocol::Tcp))])
        }
        _ => Err(no_such_port(service, via, asked.port.as_ref())),
    }
}

/// The name of a port that is given by name or number.
pub(super) fn port_name(service: &Service, asked: &Port) -> Result<String, String> {
    let is_meant = |port: &&ServicePort| match asked {
        Port::Number(number) => port.port == *number,
        Port::Name(name) => *port.name == **name,
    };
    let found = service.ports.iter().find(is_meant).map(|port| port.name.to_string());
    found.ok_or_else(|| no_such_port(service, Via::ClusterIp, Some(asked)))
}

fn title(port: &ServicePort) -> String {
    if port.name.is_empty() { port.port.to_string() } else { port.name.to_string() }
}

fn no_such_port(service: &Service, via: Via, asked: Option<&Port>) -> String {
    let (what, similar) = match asked {
        Some(Port::Name(name)) => (format!("port {name:?}"), similar_ports(service, name)),
        Some(Port::Number(number)) => (format!("port {number}"), Vec::new()),
        None => ("ports".to_owned(), Vec::new()),
    };
    let what = if via == Via::NodePort { format!("node {what}") } else { what };
    let list: Vec<String> = service.ports.iter().map(described).collect();
    let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    let text = format!("svc/{} has no {what}{}; its ports: {list}", service.name, did_you_mean(&similar));
    printable(&text).into_owned()
}

fn similar_ports(service: &Service, name: &str) -> Vec<String> {
    let close = |port: &ServicePort| Some((distance(name, &port.name, limit(name))?, port.name.to_string()));
    best(service.ports.iter().filter_map(close).collect(), 3)
}

fn described(port: &ServicePort) -> String {
    let name = if port.name.is_empty() { String::new() } else { format!("{} ", port.name) };
    let node_port = port.node_port.map_or(String::new(), |number| format!(" (node port {number})"));
    format!("{name}{}/{}{node_port}", port.port, port.protocol)
}

fn addresses(known: &Known<'_>, service: &Service, via: Via) -> Result<Vec<IpAddr>, String> {
    let (addresses, field) = match via {
        Via::ClusterIp => (service.cluster_ips.to_vec(), "spec.clusterIPs"),
        Via::LoadBalancer => (service.load_balancer_ips.to_vec(), "status.loadBalancer.ingress"),
        Via::ExternalIp => (service.external_ips.to_vec(), "spec.externalIPs"),
        Via::NodePort => {
            let families = service.cluster_ips.iter().map(|address| Family::of(*address));
            let serving = families.filter_map(|family| node_port_address(known, family));
            (serving.collect(), "address of this node in the families of the Service")
        }
    };
    match addresses.is_empty() {
        true => Err(printable(&format!("{}/{} does not exist: there is no {field}", word(via), service.name)).into()),
        false => Ok(addresses),
    }
}

/// The address by which the cluster knows this node, or another one that serves node ports. If none does, that is the answer.
fn node_port_address(known: &Known<'_>, family: Family) -> Option<IpAddr> {
    let node = &known.plan.node;
    let primary = node.primary_address(family);
    let serves = |address: &IpAddr| node.serves_node_ports(family, *address);
    let other = || node.node_port_addresses(family).find(|address| !address.is_loopback());
    primary.filter(serves).or_else(other).or(primary)
}

/// DNS answers with the endpoints, which clients connect to directly.
fn of_headless(known: &Known<'_>, service: &Service, asked: &Destination) -> Result<Vec<Target>, String> {
    let slices = known.facts.slices.get(&service.name).into_iter().flat_map(|slices| slices.0.iter());
    let is_meant = |port: &&SlicePort| match &asked.port {
        None => true,
        Some(Port::Number(number)) => port.port == *number,
        Some(Port::Name(name)) => *port.name == **name,
    };
    let mut targets = Vec::new();
    for slice in slices {
        for port in slice.ports.iter().filter(is_meant) {
            let label = printable(&format!("svc/{}:{}", service.name, port.port)).into_owned();
            let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready);
            targets.extend(ready.map(|endpoint| Target {
                label: Some(label.clone()),
                address: endpoint.address,
                port: port.port,
                protocol: port.protocol,
            }));
        }
    }
    let name = printable(&service.name.to_string()).into_owned();
    match targets.is_empty() {
        true => Err(format!("svc/{name} is headless, and no ready endpoint has such a port: DNS answers with none")),
        false => Ok(targets),
    }
}
