//! What a Service asks of the allocator: families, addresses, node ports.

use std::collections::HashSet;

use portolan_model::{Service, ServiceKind, TrafficPolicy};

use super::{Context, Flaw, check, families};
use crate::object::{Demand, Wish};
use crate::read::schema::{Scalar, ServiceSpec};

pub(super) fn wish(spec: &ServiceSpec, service: &Service, context: &Context<'_>) -> Result<Wish, Flaw> {
    if service.kind == ServiceKind::ExternalName {
        return Ok(Wish::default());
    }
    let headless = families::is_headless(spec);
    let (families, addresses) = families::addressing(spec, context.service_ranges, headless)?;
    let balanced = service.kind == ServiceKind::LoadBalancer;
    let wants_health_port = balanced && service.external_policy == TrafficPolicy::Local;
    let allocate = spec.allocate_load_balancer_node_ports.unwrap_or(true);
    let demand = Demand {
        addresses,
        node_ports: node_ports(spec, service, context)?,
        health_port: health_port(spec, context)?.filter(|_| wants_health_port),
    };
    Ok(Wish {
        headless,
        families,
        wants_node_ports: service.kind == ServiceKind::NodePort || balanced && allocate,
        wants_health_port,
        demand: (demand != Demand::default()).then(|| Box::new(demand)),
    })
}

fn node_ports(spec: &ServiceSpec, service: &Service, context: &Context<'_>) -> Result<Box<[u16]>, Flaw> {
    let documents = spec.ports.as_deref().unwrap_or_default();
    let mut numbers = Vec::with_capacity(documents.len());
    let mut taken = HashSet::new();
    for (index, (document, port)) in documents.iter().zip(&service.ports).enumerate() {
        let path = format!("spec.ports[{index}].nodePort");
        let number = node_port(document.node_port.as_ref(), &path, context)?;
        if number != 0 && service.kind == ServiceKind::ClusterIp {
            return Err(Flaw::new(path, "type ClusterIP has no node ports"));
        }
        if number != 0 && !taken.insert((number, port.protocol)) {
            return Err(Flaw::new(path, format!("{number}/{} is the node port of another port", port.protocol)));
        }
        numbers.push(number);
    }
    Ok(if taken.is_empty() { [].into() } else { numbers.into() })
}

fn health_port(spec: &ServiceSpec, context: &Context<'_>) -> Result<Option<u16>, Flaw> {
    let number = node_port(spec.health_check_node_port.as_ref(), "spec.healthCheckNodePort", context)?;
    Ok((number != 0).then_some(number))
}

/// 0 is how Kubernetes says "any".
fn node_port(value: Option<&Scalar>, path: &str, context: &Context<'_>) -> Result<u16, Flaw> {
    let Some(value) = value.filter(|value| **value != Scalar::Number(0)) else { return Ok(0) };
    let number = check::port_number(value, || path.to_owned())?;
    let range = context.node_port_range;
    if range.contains(&number) {
        return Ok(number);
    }
    Err(Flaw::new(path, format!("{number} is not in the node port range ({}-{})", range.start(), range.end())))
}
