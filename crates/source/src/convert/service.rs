//! Services: what either reading makes of them. Addresses and node ports are requested by a manifest ([`super::request`])
//! and assigned by an API server ([`super::assigned`]).

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Service, ServiceKind, ServicePort, TrafficPolicy};

use super::context::{Context, Defaults, Flaw};
use super::{assigned, balancing, check, request, selection};
use crate::object::{ObjectId, ServiceObject};
use crate::spec::{self, ServiceSpec};

/// The annotation that names the IPVS scheduler of one Service.
const SCHEDULER: &str = "portolan.io/scheduler";
/// kube-proxy's annotation for Windows nodes.
const PRESERVE_DESTINATION: &str = "preserve-destination";
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;

/// A Service of a manifest, whose addresses and node ports are still to be allocated.
pub(crate) fn requested(
    object: &spec::Service,
    id: &ObjectId,
    defaults: Defaults<'_>,
    context: &mut Context<'_>,
) -> Result<ServiceObject, Flaw> {
    let (spec, service) = convert(object, id, context)?;
    Ok(ServiceObject {
        request: request::request(spec, &service, defaults)?,
        selection: selection::selection(spec, &service, context.names)?.map(Box::new),
        foreign: is_foreign(object),
        service: Arc::new(service),
    })
}

/// A Service of the API server, with the addresses and node ports that it has. A Service that has no address yet is
/// `None`: it has no rules and no names.
pub(crate) fn assigned(
    object: &spec::Service,
    id: &ObjectId,
    context: &mut Context<'_>,
) -> Result<Option<Service>, Flaw> {
    let (spec, mut service) = convert(object, id, context)?;
    assigned::assign(&mut service, spec)?;
    let has_names = service.kind == ServiceKind::ExternalName || spec.is_headless();
    Ok(Some(service).filter(|service| has_names || !service.cluster_ips.is_empty()))
}

/// A label names another proxy that serves it.
pub(crate) fn is_foreign(object: &spec::Service) -> bool {
    object.metadata.label("service.kubernetes.io/service-proxy-name").is_some()
}

fn convert<'a>(
    object: &'a spec::Service,
    id: &ObjectId,
    context: &mut Context<'_>,
) -> Result<(&'a ServiceSpec, Service), Flaw> {
    let spec = object.spec.as_ref().ok_or_else(|| Flaw::new("spec", "a spec is required"))?;
    let kind = kind(spec)?;
    let external_ips = external_ips(spec, context);
    let service = Service {
        kind,
        ports: ports(spec, kind, context)?,
        load_balancer_ips: load_balancer_ips(object, kind, context),
        source_ranges: check::ranges(&spec.load_balancer_source_ranges, "spec.loadBalancerSourceRanges")?,
        internal_policy: policy(&spec.internal_traffic_policy, "spec.internalTrafficPolicy", context)?,
        external_policy: external_policy(spec, kind, &external_ips, context)?,
        external_ips,
        affinity_seconds: affinity(spec, context)?,
        scheduler: scheduler(object, context),
        preserve_destination: object.metadata.annotation(PRESERVE_DESTINATION) == Some("true"),
        balancing: balancing::balancing(&object.metadata, context),
        external_name: external_name(spec, kind, context)?,
        ..Service::empty(id.service_name())
    };
    Ok((spec, service))
}

fn kind(spec: &ServiceSpec) -> Result<ServiceKind, Flaw> {
    match &*spec.r#type {
        "" | "ClusterIP" => Ok(ServiceKind::ClusterIp),
        "ExternalName" => Ok(ServiceKind::ExternalName),
        "NodePort" | "LoadBalancer" if spec.is_headless() => {
            Err(Flaw::new("spec.clusterIP", "None is possible with type ClusterIP only"))
        }
        "NodePort" => Ok(ServiceKind::NodePort),
        "LoadBalancer" => Ok(ServiceKind::LoadBalancer),
        other => {
            let reason = "is not a type of Service (ClusterIP, NodePort, LoadBalancer or ExternalName)";
            Err(Flaw::new("spec.type", format!("{other:?} {reason}")))
        }
    }
}

fn ports(spec: &ServiceSpec, kind: ServiceKind, context: &mut Context<'_>) -> Result<Box<[ServicePort]>, Flaw> {
    let ports = spec.ports.iter().enumerate().map(|(index, port)| self::port(port, index, context));
    let ports: Box<[ServicePort]> = ports.collect::<Result<_, _>>()?;
    if context.is_strict() {
        let may_be_empty = kind == ServiceKind::ExternalName || spec.is_headless();
        distinct(&ports, may_be_empty)?;
    }
    Ok(ports)
}

fn port(port: &spec::ServicePort, index: usize, context: &mut Context<'_>) -> Result<ServicePort, Flaw> {
    let path = |field: &str| format!("spec.ports[{index}].{field}");
    if !port.name.is_empty() {
        check::label(&port.name, || path("name"))?;
    }
    let number = port.port.ok_or_else(|| Flaw::new(path("port"), "a port is required"))?;
    Ok(ServicePort {
        name: context.names.share(&port.name),
        protocol: check::protocol(&port.protocol, || path("protocol"))?,
        port: check::port_number(number, || path("port"))?,
        node_port: None,
    })
}

fn distinct(ports: &[ServicePort], may_be_empty: bool) -> Result<(), Flaw> {
    if ports.is_empty() && !may_be_empty {
        return Err(Flaw::new("spec.ports", "at least one port is required"));
    }
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = |field: &str| format!("spec.ports[{index}].{field}");
        if port.name.is_empty() && ports.len() > 1 {
            return Err(Flaw::new(path("name"), "a name is required where there are several ports"));
        }
        if !names.insert(&*port.name) {
            return Err(Flaw::new(path("name"), format!("{:?} is the name of another port", port.name)));
        }
        if !numbers.insert((port.protocol, port.port)) {
            let reason = format!("{}/{} is the number of another port", port.port, port.protocol);
            return Err(Flaw::new(path("port"), reason));
        }
    }
    Ok(())
}

/// Malformed external addresses are left out, as kube-proxy does, and reported.
fn external_ips(spec: &ServiceSpec, context: &mut Context<'_>) -> Box<[IpAddr]> {
    let texts = spec.external_ips.iter().enumerate();
    let addresses = texts.map(|(index, text)| check::usable_address(text, || format!("spec.externalIPs[{index}]")));
    addresses.filter_map(|address| context.or_omit(address)).collect()
}

/// Only addresses whose traffic arrives with the address as its destination: `ipMode: Proxy` and host names are those of a
/// load balancer that terminates the connection.
fn load_balancer_ips(object: &spec::Service, kind: ServiceKind, context: &mut Context<'_>) -> Box<[IpAddr]> {
    let ingress = object.status.load_balancer.ingress.iter().enumerate();
    let vips = ingress.filter(|(_, ingress)| {
        let is_vip = matches!(&*ingress.ip_mode, "" | "VIP") && !ingress.ip.is_empty();
        is_vip && kind == ServiceKind::LoadBalancer
    });
    let path = |index: usize| format!("status.loadBalancer.ingress[{index}].ip");
    let addresses = vips.map(|(index, ingress)| check::usable_address(&ingress.ip, || path(index)));
    addresses.filter_map(|address| context.or_omit(address)).collect()
}

fn policy(value: &str, path: &str, context: &mut Context<'_>) -> Result<TrafficPolicy, Flaw> {
    let policy = match value {
        "" | "Cluster" => Ok(TrafficPolicy::Cluster),
        "Local" => Ok(TrafficPolicy::Local),
        other => Err(Flaw::new(path, format!("{other:?} is not a traffic policy (Cluster or Local)"))),
    };
    context.or(policy, TrafficPolicy::Cluster)
}

/// It applies only to a Service that is reachable from outside.
fn external_policy(
    spec: &ServiceSpec,
    kind: ServiceKind,
    external_ips: &[IpAddr],
    context: &mut Context<'_>,
) -> Result<TrafficPolicy, Flaw> {
    let policy = policy(&spec.external_traffic_policy, "spec.externalTrafficPolicy", context)?;
    let is_external = match kind {
        ServiceKind::NodePort | ServiceKind::LoadBalancer => true,
        ServiceKind::ClusterIp => !external_ips.is_empty(),
        ServiceKind::ExternalName => false,
    };
    Ok(if is_external { policy } else { TrafficPolicy::Cluster })
}

fn affinity(spec: &ServiceSpec, context: &mut Context<'_>) -> Result<Option<u32>, Flaw> {
    match &*spec.session_affinity {
        "" | "None" => Ok(None),
        "ClientIP" => context.or(affinity_seconds(spec), DEFAULT_AFFINITY_SECONDS).map(Some),
        other => {
            let reason = format!("{other:?} is not a session affinity (None or ClientIP)");
            context.or(Err(Flaw::new("spec.sessionAffinity", reason)), None)
        }
    }
}

fn affinity_seconds(spec: &ServiceSpec) -> Result<u32, Flaw> {
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    match config.and_then(|config| config.timeout_seconds) {
        None => Ok(DEFAULT_AFFINITY_SECONDS),
        Some(seconds @ 1..=86_400) => Ok(seconds.unsigned_abs()),
        Some(other) => {
            let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            Err(Flaw::new(path, format!("{other} is not a timeout (1 to 86400 seconds)")))
        }
    }
}

/// Schedulers have short names. Whether the kernel has this one shows when it is used.
fn scheduler(object: &spec::Service, context: &mut Context<'_>) -> Option<Arc<str>> {
    let name = object.metadata.annotation(SCHEDULER).map(str::trim).filter(|name| !name.is_empty())?;
    let is_name = name.len() <= 15 && name.bytes().all(|byte| byte.is_ascii_lowercase());
    let flaw = || {
        let path = format!("metadata.annotations[{SCHEDULER}]");
        Flaw::new(path, format!("{name:?} is not an IPVS scheduler such as rr or lc"))
    };
    context.or_omit(if is_name { Ok(name.into()) } else { Err(flaw()) })
}

fn external_name(spec: &ServiceSpec, kind: ServiceKind, context: &mut Context<'_>) -> Result<Option<Arc<str>>, Flaw> {
    let path = || "spec.externalName".to_owned();
    match &*spec.external_name {
        _ if kind != ServiceKind::ExternalName => Ok(None),
        "" => context.or(Err(Flaw::new(path(), "type ExternalName requires one")), None),
        name => {
            let checked = check::subdomain(name.strip_suffix('.').unwrap_or(name), path);
            context.or(checked.map(|_| Some(name.into())), None)
        }
    }
}
