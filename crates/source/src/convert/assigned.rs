//! The addresses and node ports that the API server has given a Service.

use std::net::IpAddr;

use portolan_model::{Family, Service, ServiceKind, TrafficPolicy};

use super::check;
use super::context::Flaw;
use crate::spec::ServiceSpec;

pub(super) fn assign(service: &mut Service, spec: &ServiceSpec) -> Result<(), Flaw> {
    if service.kind == ServiceKind::ExternalName {
        return Ok(());
    }
    service.cluster_ips = cluster_ips(spec)?;
    for (index, (port, given)) in service.ports.iter_mut().zip(&spec.ports).enumerate() {
        port.node_port = check::optional_port(given.node_port, || format!("spec.ports[{index}].nodePort"))?;
    }
    let is_checked = service.kind == ServiceKind::LoadBalancer && service.external_policy == TrafficPolicy::Local;
    let health_port = check::optional_port(spec.health_check_node_port, || "spec.healthCheckNodePort".to_owned())?;
    service.health_check_node_port = health_port.filter(|_| is_checked);
    Ok(())
}

/// The first of each family. `ipFamilies` is not needed: an address shows its own.
fn cluster_ips(spec: &ServiceSpec) -> Result<Box<[IpAddr]>, Flaw> {
    let single = std::slice::from_ref(&spec.cluster_ip);
    let texts = if spec.cluster_ips.is_empty() { single } else { &spec.cluster_ips };
    let mut addresses: Vec<IpAddr> = Vec::with_capacity(texts.len());
    for text in texts.iter().filter(|text| !matches!(text.as_str(), "" | "None")) {
        let address = check::address(text, || "spec.clusterIPs".to_owned())?;
        if !addresses.iter().any(|known| Family::of(*known) == Family::of(address)) {
            addresses.push(address);
        }
    }
    Ok(addresses.into())
}
