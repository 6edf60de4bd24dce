//! Services as the API server holds them, read as leniently as kube-proxy does.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use portolan_model::{Family, Service, ServiceKind, ServiceName, ServicePort, TrafficPolicy};

use super::super::messages::{self, ServiceSpec};
use crate::convert::{Flaw, check};
use crate::intern::Interner;
use crate::read::schema::Scalar;

/// `None` for a Service that no proxy has anything to do with: a headless one, or one without an address yet.
pub(super) fn convert(
    message: &messages::Service,
    name: ServiceName,
    names: &mut Interner,
    skipped: &mut Vec<Flaw>,
) -> Result<Option<Service>, Flaw> {
    let spec = &message.spec;
    let kind = kind(spec)?;
    if kind == ServiceKind::ExternalName {
        let external_name = Some(spec.external_name.as_str().into());
        return Ok(Some(Service { kind, external_name, ..Service::empty(name) }));
    }
    let cluster_ips = cluster_ips(spec)?;
    if cluster_ips.is_empty() {
        return Ok(None);
    }
    let external_ips = usable(spec.external_ips.iter().map(String::as_str), "spec.externalIPs", skipped);
    let external_policy = external_policy(spec, kind, &external_ips);
    let is_watched = kind == ServiceKind::LoadBalancer && external_policy == TrafficPolicy::Local;
    Ok(Some(Service {
        kind,
        cluster_ips,
        ports: ports(spec, names)?,
        external_ips,
        load_balancer_ips: load_balancer_ips(message, kind, skipped),
        source_ranges: source_ranges(spec)?,
        internal_policy: policy(spec.internal_traffic_policy.as_deref().unwrap_or("")),
        external_policy,
        affinity_seconds: affinity(spec),
        scheduler: check::scheduler(message.metadata.annotations.get(check::SCHEDULER).map(String::as_str), skipped),
        health_check_node_port: port_or_none(spec.health_check_node_port, "spec.healthCheckNodePort")?
            .filter(|_| is_watched),
        ..Service::empty(name)
    }))
}

/// A Service that is nothing but its endpoints: it has names, and no rules.
pub(super) fn headless(message: &messages::Service, name: ServiceName, names: &mut Interner) -> Result<Service, Flaw> {
    Ok(Service { ports: ports(&message.spec, names)?, ..Service::empty(name) })
}

fn kind(spec: &ServiceSpec) -> Result<ServiceKind, Flaw> {
    match spec.r#type.as_str() {
        "" | "ClusterIP" => Ok(ServiceKind::ClusterIp),
        "NodePort" => Ok(ServiceKind::NodePort),
        "LoadBalancer" => Ok(ServiceKind::LoadBalancer),
        "ExternalName" => Ok(ServiceKind::ExternalName),
        other => Err(Flaw::new("spec.type", format!("{other:?} is not a type of Service that we know"))),
    }
}

/// The first of each family, whatever `ipFamilies` says: an address shows its own.
fn cluster_ips(spec: &ServiceSpec) -> Result<Box<[IpAddr]>, Flaw> {
    let single = std::slice::from_ref(&spec.cluster_ip);
    let texts = if spec.cluster_ips.is_empty() { single } else { &spec.cluster_ips };
    let mut addresses: Vec<IpAddr> = Vec::with_capacity(texts.len());
    for text in texts.iter().filter(|text| !matches!(text.as_str(), "" | "None")) {
        let address = check::address(text);
        let address = address.ok_or_else(|| Flaw::new("spec.clusterIPs", format!("{text:?} is not an IP address")))?;
        if !addresses.iter().any(|known| Family::of(*known) == Family::of(address)) {
            addresses.push(address);
        }
    }
    Ok(addresses.into())
}

fn ports(spec: &ServiceSpec, names: &mut Interner) -> Result<Box<[ServicePort]>, Flaw> {
    let port = |(index, port): (usize, &messages::ServicePort)| {
        let path = |field: &str| format!("spec.ports[{index}].{field}");
        if !port.name.is_empty() {
            check::label(&port.name, || path("name"))?;
        }
        Ok(ServicePort {
            name: names.share(&port.name),
            protocol: check::protocol(Some(&port.protocol), || path("protocol"))?,
            port: check::port_number(&Scalar::Number(port.port.into()), || path("port"))?,
            node_port: port_or_none(port.node_port, &path("nodePort"))?,
        })
    };
    spec.ports.iter().enumerate().map(port).collect()
}

fn port_or_none(number: i32, path: &str) -> Result<Option<u16>, Flaw> {
    match number {
        0 => Ok(None),
        number => check::port_number(&Scalar::Number(number.into()), || path.to_owned()).map(Some),
    }
}

/// What cannot be an address to be reached at is left out, but not in silence.
fn usable<'a>(texts: impl Iterator<Item = &'a str>, path: &str, skipped: &mut Vec<Flaw>) -> Box<[IpAddr]> {
    let mut addresses = Vec::new();
    for text in texts {
        match check::usable_address(text, || path.to_owned()) {
            Ok(address) => addresses.push(address),
            Err(flaw) => skipped.push(flaw),
        }
    }
    addresses.into()
}

/// Only addresses whose traffic arrives here unchanged: `ipMode: Proxy` and host names mean somebody else's door.
fn load_balancer_ips(message: &messages::Service, kind: ServiceKind, skipped: &mut Vec<Flaw>) -> Box<[IpAddr]> {
    let ingress = message.status.load_balancer.ingress.iter().filter(|_| kind == ServiceKind::LoadBalancer);
    let arriving = ingress.filter(|it| matches!(it.ip_mode.as_deref(), None | Some("" | "VIP")) && !it.ip.is_empty());
    usable(arriving.map(|ingress| ingress.ip.as_str()), "status.loadBalancer.ingress", skipped)
}

/// A range that cannot be read is refused, not skipped: leaving it out would open or close a door by accident.
fn source_ranges(spec: &ServiceSpec) -> Result<Box<[IpNet]>, Flaw> {
    let parse = |text: &String| {
        let reason = || Flaw::new("spec.loadBalancerSourceRanges", format!("{text:?} is not a range of addresses"));
        check::range(text.trim()).ok_or_else(reason)
    };
    spec.load_balancer_source_ranges.iter().map(parse).collect()
}

fn policy(text: &str) -> TrafficPolicy {
    if text == "Local" { TrafficPolicy::Local } else { TrafficPolicy::Cluster }
}

/// It means something only to a Service that can be reached from outside.
fn external_policy(spec: &ServiceSpec, kind: ServiceKind, external_ips: &[IpAddr]) -> TrafficPolicy {
    let outside = kind != ServiceKind::ClusterIp || !external_ips.is_empty();
    if outside { policy(&spec.external_traffic_policy) } else { TrafficPolicy::Cluster }
}

fn affinity(spec: &ServiceSpec) -> Option<u32> {
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds).and_then(|seconds| u32::try_from(seconds).ok());
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds)).unwrap_or(10_800);
    (spec.session_affinity == "ClientIP").then_some(seconds)
}

pub(super) fn name(metadata: &messages::Metadata, names: &mut Interner) -> Result<ServiceName, Flaw> {
    check::label(&metadata.name, || "metadata.name".to_owned())?;
    Ok(ServiceName { namespace: namespace(metadata, names)?, name: names.share(&metadata.name) })
}

pub(super) fn namespace(metadata: &messages::Metadata, names: &mut Interner) -> Result<Arc<str>, Flaw> {
    check::label(&metadata.namespace, || "metadata.namespace".to_owned())?;
    Ok(names.share(&metadata.namespace))
}
