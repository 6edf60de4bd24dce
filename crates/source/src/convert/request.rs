//! What a Service requests of the allocator: families, addresses, node ports.

use std::collections::HashSet;

use portolan_model::{Service, ServiceKind, TrafficPolicy};

use super::context::{Defaults, Flaw};
use super::{check, families};
use crate::object::{AddressRequest, Explicit};
use crate::spec::ServiceSpec;

pub(super) fn request(spec: &ServiceSpec, service: &Service, defaults: Defaults<'_>) -> Result<AddressRequest, Flaw> {
    if service.kind == ServiceKind::ExternalName {
        return Ok(AddressRequest::default());
    }
    let (families, addresses) = families::addressing(spec, defaults.service_ranges)?;
    let is_balanced = service.kind == ServiceKind::LoadBalancer;
    let needs_health_port = is_balanced && service.external_policy == TrafficPolicy::Local;
    let allocates = spec.allocate_load_balancer_node_ports.unwrap_or(true);
    let explicit = Explicit {
        addresses,
        node_ports: node_ports(spec, service, defaults)?,
        health_port: health_port(spec, defaults)?.filter(|_| needs_health_port),
    };
    Ok(AddressRequest {
        headless: spec.is_headless(),
        families,
        needs_node_ports: service.kind == ServiceKind::NodePort || is_balanced && allocates,
        needs_health_port,
        explicit: (explicit != Explicit::default()).then(|| Box::new(explicit)),
    })
}

/// One for each port, 0 where none is given; empty where none is given at all.
fn node_ports(spec: &ServiceSpec, service: &Service, defaults: Defaults<'_>) -> Result<Box<[u16]>, Flaw> {
    let mut numbers = Vec::with_capacity(spec.ports.len());
    let mut taken = HashSet::new();
    for (index, (given, port)) in spec.ports.iter().zip(&service.ports).enumerate() {
        let path = format!("spec.ports[{index}].nodePort");
        let number = node_port(given.node_port, &path, defaults)?;
        if number.is_some() && service.kind == ServiceKind::ClusterIp {
            return Err(Flaw::new(path, "type ClusterIP has no node ports"));
        }
        if let Some(number) = number.filter(|number| !taken.insert((*number, port.protocol))) {
            return Err(Flaw::new(path, format!("{number}/{} is the node port of another port", port.protocol)));
        }
        numbers.push(number.unwrap_or(0));
    }
    Ok(if taken.is_empty() { [].into() } else { numbers.into() })
}

fn health_port(spec: &ServiceSpec, defaults: Defaults<'_>) -> Result<Option<u16>, Flaw> {
    node_port(spec.health_check_node_port, "spec.healthCheckNodePort", defaults)
}

fn node_port(number: Option<i32>, path: &str, defaults: Defaults<'_>) -> Result<Option<u16>, Flaw> {
    let range = defaults.node_port_range;
    match check::optional_port(number, || path.to_owned())? {
        Some(number) if !range.contains(&number) => {
            let reason = format!("{number} is not in the node port range ({}-{})", range.start(), range.end());
            Err(Flaw::new(path, reason))
        }
        number => Ok(number),
    }
}
