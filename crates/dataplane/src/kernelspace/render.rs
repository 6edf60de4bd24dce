//! From the plan of a Service port to endpoints and load balancers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_hns::{balancer_flags, mapping_flags};
use portolan_model::{Algorithm, Family, HashOf, Protocol};
use portolan_plan::{Endpoint, Frontend, FrontendAddress, FrontendKind, Selection, ServicePlan, Verdict};

use super::objects::{Balancer, Distribution, Front, Key, Role, Source, Target, Value};
use super::settings::Settings;

pub(super) fn service(settings: &Settings, service: &ServicePlan) -> Vec<(Key, Value)> {
    let mut objects = Vec::new();
    for frontend in &service.frontends {
        let Verdict::Forward(pool) = frontend.routes.outside.verdict else { continue };
        let pool = service.pool(pool);
        objects.extend(pool.iter().filter(|it| !it.may_be_here).map(remote));
        objects.push((
            Key::Balancer(front(service, frontend)),
            Value::Balancer(balancer(settings, service, frontend, pool)),
        ));
        objects.extend(settings.is_overlay.then(|| service_address(frontend)).flatten());
    }
    objects.extend(health_checks(settings, service));
    objects
}

fn remote(endpoint: &Endpoint) -> (Key, Value) {
    (Key::Endpoint(endpoint.address), Value::Endpoint(Role::Remote))
}

/// An overlay routes to addresses that it has endpoints for.
fn service_address(frontend: &Frontend) -> Option<(Key, Value)> {
    match (frontend.kind, frontend.address) {
        (FrontendKind::ClusterIp, FrontendAddress::Vip(address, _)) => {
            Some((Key::Endpoint(address), Value::Endpoint(Role::ServiceAddress)))
        }
        _ => None,
    }
}

pub(super) fn front(service: &ServicePlan, frontend: &Frontend) -> Front {
    let (address, port) = match frontend.address {
        FrontendAddress::Vip(address, port) => (Some(address), port),
        FrontendAddress::NodePort(port) => (None, port),
    };
    Front { family: service.key.family, protocol: service.protocol(), address, port }
}

fn balancer(settings: &Settings, service: &ServicePlan, frontend: &Frontend, pool: &[Endpoint]) -> Balancer {
    let targets: BTreeSet<IpAddr> = pool.iter().map(|endpoint| endpoint.address).collect();
    let keeps_source = !frontend.routes.outside.masquerade && settings.abilities.direct_return;
    Balancer {
        targets: targets.into_iter().map(Target::Address).collect(),
        target_port: pool.first().map_or(0, |endpoint| endpoint.port),
        distribution: distribution(settings, service),
        flags: if keeps_source { balancer_flags::DSR } else { 0 } | ipv6(service.key.family),
        mapping_flags: mapping_flags(frontend.kind, preserves_destination(settings, service)),
        source: Source::Standard,
    }
}

fn ipv6(family: Family) -> u32 {
    if family == Family::V6 { balancer_flags::IPV6 } else { 0 }
}

fn mapping_flags(kind: FrontendKind, preserve_destination: bool) -> u32 {
    match kind {
        FrontendKind::ClusterIp => 0,
        FrontendKind::NodePort => mapping_flags::VIP_EXTERNAL_IP | mapping_flags::LOCAL_ROUTED_VIP,
        FrontendKind::ExternalIp => mapping_flags::VIP_EXTERNAL_IP,
        FrontendKind::LoadBalancerIp => mapping_flags::VIP_EXTERNAL_IP | preserved(preserve_destination),
    }
}

/// As in kube-proxy, this takes direct server return.
fn preserves_destination(settings: &Settings, service: &ServicePlan) -> bool {
    service.preserve_destination && settings.abilities.direct_return
}

fn preserved(preserve_destination: bool) -> u32 {
    if preserve_destination { mapping_flags::USE_MUX | mapping_flags::PRESERVE_DIP } else { 0 }
}

/// HNS hashes the client where Services ask for affinity, and has no timeout for it.
fn distribution(settings: &Settings, service: &ServicePlan) -> Distribution {
    let hashes = service.balance.algorithm == Some(Algorithm::SourceHash)
        && service.balance.selection() == Selection::ByHash(HashOf::Client);
    let is_kept = settings.abilities.affinity && (service.affinity_seconds.is_some() || hashes);
    if is_kept { Distribution::Client } else { Distribution::Connection }
}

/// Load balancers outside of the cluster probe their own address, and the root endpoint leads the probe to this process.
fn health_checks(settings: &Settings, service: &ServicePlan) -> impl Iterator<Item = (Key, Value)> {
    let family = service.key.family;
    let preserved = preserved(preserves_destination(settings, service));
    service.forwarded_probes().map(move |(address, port)| {
        let front = Front { family, protocol: Protocol::Tcp, address: Some(address), port };
        let balancer = Balancer {
            targets: [Target::Named(Arc::from(&*settings.root_endpoint))].into(),
            target_port: port,
            distribution: Distribution::Connection,
            flags: ipv6(family),
            mapping_flags: preserved,
            source: Source::Standard,
        };
        (Key::HealthCheck(front), Value::Balancer(balancer))
    })
}
