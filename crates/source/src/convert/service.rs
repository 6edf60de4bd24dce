//! Services: the defaults of an API server, and its refusals.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use portolan_model::{Service, ServiceKind, ServicePort, TrafficPolicy};

use super::{Context, Flaw, check, families, wish};
use crate::intern::Interner;
use crate::object::{Distribution, Object, ObjectId, Selection, ServiceObject, Target};
use crate::read::schema::{Scalar, ServiceDocument, ServicePortDocument, ServiceSpec, ServiceStatus};

pub(super) fn convert(document: ServiceDocument, context: &mut Context<'_>, id: &ObjectId) -> Result<Object, Flaw> {
    let spec = document.spec.ok_or_else(|| Flaw::new("spec", "a spec is required"))?;
    let kind = kind(&spec)?;
    let ports = ports(&spec, kind, context.names)?;
    let external_ips = external_ips(&spec, &mut context.skipped);
    let external_policy = external_policy(&spec, kind, &external_ips)?;
    let metadata = document.metadata.unwrap_or_default();
    let service = Service {
        kind,
        ports,
        external_ips,
        load_balancer_ips: load_balancer_ips(document.status.as_ref(), kind, &mut context.skipped),
        source_ranges: source_ranges(&spec)?,
        internal_policy: policy(spec.internal_traffic_policy.as_deref(), "spec.internalTrafficPolicy")?,
        external_policy,
        affinity_seconds: affinity(&spec)?,
        scheduler: check::scheduler(metadata.annotation(check::SCHEDULER), &mut context.skipped),
        external_name: external_name(&spec, kind)?,
        ..Service::empty(id.service_name())
    };
    Ok(Object::Service(Box::new(ServiceObject {
        wish: wish::wish(&spec, &service, context)?,
        selection: selection(&spec, &service, context.names)?.map(Box::new),
        foreign: metadata.label("service.kubernetes.io/service-proxy-name").is_some(),
        service: Arc::new(service),
    })))
}

fn kind(spec: &ServiceSpec) -> Result<ServiceKind, Flaw> {
    let kind = match spec.r#type.as_deref() {
        None | Some("" | "ClusterIP") => ServiceKind::ClusterIp,
        Some("NodePort") => ServiceKind::NodePort,
        Some("LoadBalancer") => ServiceKind::LoadBalancer,
        Some("ExternalName") => ServiceKind::ExternalName,
        Some(other) => {
            let reason = "is not a type of Service (ClusterIP, NodePort, LoadBalancer or ExternalName)";
            return Err(Flaw::new("spec.type", format!("{other:?} {reason}")));
        }
    };
    match kind {
        ServiceKind::NodePort | ServiceKind::LoadBalancer if families::is_headless(spec) => {
            Err(Flaw::new("spec.clusterIP", "None goes with type ClusterIP only"))
        }
        kind => Ok(kind),
    }
}

fn ports(spec: &ServiceSpec, kind: ServiceKind, names: &mut Interner) -> Result<Box<[ServicePort]>, Flaw> {
    let documents = spec.ports.as_deref().unwrap_or_default();
    if documents.is_empty() && kind != ServiceKind::ExternalName && !families::is_headless(spec) {
        return Err(Flaw::new("spec.ports", "at least one port is required"));
    }
    let several = documents.len() > 1;
    let ports = documents.iter().enumerate().map(|(index, document)| port(document, index, several, names));
    let ports: Box<[ServicePort]> = ports.collect::<Result<_, _>>()?;
    unique(&ports)?;
    Ok(ports)
}

fn port(
    document: &ServicePortDocument,
    index: usize,
    several: bool,
    names: &mut Interner,
) -> Result<ServicePort, Flaw> {
    let path = |field: &str| format!("spec.ports[{index}].{field}");
    let name = document.name.as_deref().unwrap_or("");
    match name {
        "" if several => return Err(Flaw::new(path("name"), "a name is required where there are several ports")),
        "" => {}
        name => check::label(name, || path("name"))?,
    }
    let number = document.port.as_ref().ok_or_else(|| Flaw::new(path("port"), "a port is required"))?;
    Ok(ServicePort {
        name: names.share(name),
        protocol: check::protocol(document.protocol.as_deref(), || path("protocol"))?,
        port: check::port_number(number, || path("port"))?,
        node_port: None,
    })
}

fn unique(ports: &[ServicePort]) -> Result<(), Flaw> {
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        if !names.insert(&*port.name) {
            let reason = format!("{:?} is the name of another port", port.name);
            return Err(Flaw::new(format!("spec.ports[{index}].name"), reason));
        }
        if !numbers.insert((port.protocol, port.port)) {
            let reason = format!("{}/{} is the number of another port", port.port, port.protocol);
            return Err(Flaw::new(format!("spec.ports[{index}].port"), reason));
        }
    }
    Ok(())
}

/// What cannot be an external address is left out, as kube-proxy does, but not in silence.
fn external_ips(spec: &ServiceSpec, skipped: &mut Vec<Flaw>) -> Box<[IpAddr]> {
    let mut addresses = Vec::new();
    for (index, text) in spec.external_ips.iter().flatten().enumerate() {
        match check::usable_address(text, || format!("spec.externalIPs[{index}]")) {
            Ok(address) => addresses.push(address),
            Err(flaw) => skipped.push(flaw),
        }
    }
    addresses.into()
}

/// Only addresses whose traffic arrives here unchanged: `ipMode: Proxy` and host names mean somebody else's door.
fn load_balancer_ips(status: Option<&ServiceStatus>, kind: ServiceKind, skipped: &mut Vec<Flaw>) -> Box<[IpAddr]> {
    let status = status.filter(|_| kind == ServiceKind::LoadBalancer).and_then(|status| status.load_balancer.as_ref());
    let mut addresses = Vec::new();
    for (index, ingress) in status.and_then(|status| status.ingress.as_ref()).into_iter().flatten().enumerate() {
        let arrives = matches!(ingress.ip_mode.as_deref(), None | Some("" | "VIP"));
        let Some(text) = ingress.ip.as_deref().filter(|text| arrives && !text.is_empty()) else { continue };
        match check::usable_address(text, || format!("status.loadBalancer.ingress[{index}].ip")) {
            Ok(address) => addresses.push(address),
            Err(flaw) => skipped.push(flaw),
        }
    }
    addresses.into()
}

/// A range that cannot be read is refused, not skipped: leaving it out would open or close a door by accident.
fn source_ranges(spec: &ServiceSpec) -> Result<Box<[IpNet]>, Flaw> {
    let parse = |(index, text): (usize, &String)| {
        let path = format!("spec.loadBalancerSourceRanges[{index}]");
        check::range(text.trim()).ok_or_else(|| Flaw::new(path, format!("{text:?} is not a range of addresses")))
    };
    spec.load_balancer_source_ranges.iter().flatten().enumerate().map(parse).collect()
}

fn policy(value: Option<&str>, path: &str) -> Result<TrafficPolicy, Flaw> {
    match value {
        None | Some("" | "Cluster") => Ok(TrafficPolicy::Cluster),
        Some("Local") => Ok(TrafficPolicy::Local),
        Some(other) => Err(Flaw::new(path, format!("{other:?} is not a traffic policy (Cluster or Local)"))),
    }
}

/// It means something only to a Service that can be reached from outside.
fn external_policy(spec: &ServiceSpec, kind: ServiceKind, external_ips: &[IpAddr]) -> Result<TrafficPolicy, Flaw> {
    let policy = policy(spec.external_traffic_policy.as_deref(), "spec.externalTrafficPolicy")?;
    let outside = match kind {
        ServiceKind::NodePort | ServiceKind::LoadBalancer => true,
        ServiceKind::ClusterIp => !external_ips.is_empty(),
        ServiceKind::ExternalName => false,
    };
    Ok(if outside { policy } else { TrafficPolicy::Cluster })
}

fn affinity(spec: &ServiceSpec) -> Result<Option<u32>, Flaw> {
    match spec.session_affinity.as_deref() {
        None | Some("" | "None") => return Ok(None),
        Some("ClientIP") => {}
        Some(other) => {
            let reason = format!("{other:?} is not a session affinity (None or ClientIP)");
            return Err(Flaw::new("spec.sessionAffinity", reason));
        }
    }
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    match config.and_then(|config| config.timeout_seconds.as_ref()) {
        None => Ok(Some(10_800)),
        Some(Scalar::Number(seconds @ 1..=86_400)) => Ok(Some(*seconds as u32)),
        Some(other) => {
            let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            Err(Flaw::new(path, format!("{other} is not a timeout (1 to 86400 seconds)")))
        }
    }
}

fn external_name(spec: &ServiceSpec, kind: ServiceKind) -> Result<Option<Arc<str>>, Flaw> {
    if kind != ServiceKind::ExternalName {
        return Ok(None);
    }
    let name = spec.external_name.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Flaw::new("spec.externalName", "type ExternalName requires one"))?;
    check::subdomain(name.strip_suffix('.').unwrap_or(name), || "spec.externalName".to_owned())?;
    Ok(Some(name.into()))
}

fn selection(spec: &ServiceSpec, service: &Service, names: &mut Interner) -> Result<Option<Selection>, Flaw> {
    let selector = spec.selector.iter().flatten();
    let value = |value: &Option<String>| value.as_deref().unwrap_or("").into();
    let selector: Box<[_]> = selector.map(|(key, text)| (names.share(key), value(text))).collect();
    let distribution = distribution(spec)?;
    let targets = targets(spec, service, names)?;
    if selector.is_empty() || service.kind == ServiceKind::ExternalName {
        return Ok(None);
    }
    let publish_not_ready = spec.publish_not_ready_addresses.unwrap_or(false);
    Ok(Some(Selection { selector, targets, publish_not_ready, distribution }))
}

fn distribution(spec: &ServiceSpec) -> Result<Distribution, Flaw> {
    match spec.traffic_distribution.as_deref() {
        None | Some("") => Ok(Distribution::Anywhere),
        Some("PreferClose" | "PreferSameZone") => Ok(Distribution::SameZone),
        Some("PreferSameNode") => Ok(Distribution::SameNode),
        Some(other) => {
            let reason = "is not a traffic distribution (PreferClose, PreferSameZone or PreferSameNode)";
            Err(Flaw::new("spec.trafficDistribution", format!("{other:?} {reason}")))
        }
    }
}

fn targets(spec: &ServiceSpec, service: &Service, names: &mut Interner) -> Result<Box<[Target]>, Flaw> {
    let documents = spec.ports.as_deref().unwrap_or_default();
    let pairs = documents.iter().zip(&service.ports).enumerate();
    pairs.map(|(index, (document, port))| target(document, port.port, index, names)).collect()
}

/// A number, or the name of a container's port; a headless Service is no exception.
fn target(document: &ServicePortDocument, port: u16, index: usize, names: &mut Interner) -> Result<Target, Flaw> {
    let path = || format!("spec.ports[{index}].targetPort");
    match &document.target_port {
        None | Some(Scalar::Number(0)) => Ok(Target::Number(port)),
        Some(Scalar::Text(name)) if name.is_empty() => Ok(Target::Number(port)),
        Some(Scalar::Text(name)) => {
            check::label(name, path)?;
            Ok(Target::Name(names.share(name)))
        }
        Some(number) => check::port_number(number, path).map(Target::Number),
    }
}
