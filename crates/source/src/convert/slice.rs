//! EndpointSlices, read as kube-proxy reads them.

use std::sync::Arc;

use portolan_model::{Conditions, Family, Hints, Slice, SliceEndpoint, SlicePort};

use super::{Context, Flaw, check, hostname, node_name};
use crate::intern::Interner;
use crate::object::{Object, ObjectId, SliceObject};
use crate::read::schema::{ConditionsDocument, EndpointDocument, HintsDocument, Named, PortDocument, SliceDocument};

/// Who makes slices from Pods and Endpoints in a cluster.
const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

pub(super) fn convert(document: SliceDocument, context: &mut Context<'_>, id: &ObjectId) -> Result<Object, Flaw> {
    let metadata = document.metadata.unwrap_or_default();
    let family = family(document.address_type.as_deref())?;
    let service = metadata.label("kubernetes.io/service-name").filter(|name| !name.is_empty());
    let service = service.map(|name| service_name(name, context.names)).transpose()?;
    let slice = Slice {
        name: id.name.clone(),
        family: family.unwrap_or(Family::V4),
        ports: ports(document.ports.as_deref().unwrap_or_default(), "ports", context.names)?,
        endpoints: match family {
            Some(family) => endpoints(&document.endpoints.unwrap_or_default(), family, context.names)?,
            None => [].into(),
        },
    };
    Ok(Object::Slice(Box::new(SliceObject {
        service: service.filter(|_| family.is_some()),
        headless: metadata.label("service.kubernetes.io/headless").is_some(),
        managed: metadata.label("endpointslice.kubernetes.io/managed-by").is_some_and(|it| CONTROLLERS.contains(&it)),
        slice: Arc::new(slice),
    })))
}

fn service_name(name: &str, names: &mut Interner) -> Result<Arc<str>, Flaw> {
    check::label(name, || "metadata.labels".to_owned())?;
    Ok(names.share(name))
}

/// `None` for slices of names, which nobody can be sent to.
fn family(address_type: Option<&str>) -> Result<Option<Family>, Flaw> {
    match address_type {
        Some("IPv4") => Ok(Some(Family::V4)),
        Some("IPv6") => Ok(Some(Family::V6)),
        Some("FQDN") => Ok(None),
        Some(other) => Err(Flaw::new("addressType", format!("{other:?} is not an address type (IPv4, IPv6 or FQDN)"))),
        None => Err(Flaw::new("addressType", "an address type is required (IPv4, IPv6 or FQDN)")),
    }
}

/// An absent name is the empty one, as the API server fills it in; a port without a number is passed over.
pub(super) fn ports(documents: &[PortDocument], path: &str, names: &mut Interner) -> Result<Box<[SlicePort]>, Flaw> {
    let mut ports = Vec::with_capacity(documents.len());
    for (index, document) in documents.iter().enumerate() {
        ports.extend(port(document, &format!("{path}[{index}]"), names)?);
    }
    Ok(ports.into())
}

fn port(document: &PortDocument, path: &str, names: &mut Interner) -> Result<Option<SlicePort>, Flaw> {
    let name = document.name.as_deref().unwrap_or("");
    if !name.is_empty() {
        check::label(name, || format!("{path}.name"))?;
    }
    let protocol = check::protocol(document.protocol.as_deref(), || format!("{path}.protocol"))?;
    let Some(port) = document.port.as_ref().filter(|port| **port != crate::read::schema::Scalar::Number(0)) else {
        return Ok(None);
    };
    let port = check::port_number(port, || format!("{path}.port"))?;
    Ok(Some(SlicePort { name: names.share(name), protocol, port }))
}

fn endpoints(
    documents: &[EndpointDocument],
    family: Family,
    names: &mut Interner,
) -> Result<Box<[SliceEndpoint]>, Flaw> {
    let mut endpoints = Vec::with_capacity(documents.len());
    for (index, document) in documents.iter().enumerate() {
        endpoints.extend(endpoint(document, index, family, names)?);
    }
    Ok(endpoints.into())
}

/// Only the first address counts; an endpoint without any is passed over.
fn endpoint(
    document: &EndpointDocument,
    index: usize,
    family: Family,
    names: &mut Interner,
) -> Result<Option<SliceEndpoint>, Flaw> {
    let path = |field: &str| format!("endpoints[{index}].{field}");
    let Some(text) = document.addresses.as_ref().and_then(|addresses| addresses.first()) else { return Ok(None) };
    let address = check::usable_address(text, || path("addresses[0]"))?;
    if Family::of(address) != family {
        return Err(Flaw::new(path("addresses[0]"), format!("{address} is not an {family} address")));
    }
    Ok(Some(SliceEndpoint {
        address,
        conditions: conditions(document.conditions.as_ref()),
        node: node_name(document.node_name.as_deref(), names, || path("nodeName"))?,
        hints: hints(document.hints.as_ref(), names, || path("hints"))?,
        hostname: hostname(document.hostname.as_deref(), || path("hostname"))?,
    }))
}

/// What is not said counts as well: ready and serving, and not terminating.
fn conditions(document: Option<&ConditionsDocument>) -> Conditions {
    let Some(document) = document else { return Conditions::READY };
    Conditions {
        ready: document.ready.unwrap_or(true),
        serving: document.serving.unwrap_or(true),
        terminating: document.terminating.unwrap_or(false),
    }
}

fn hints(
    document: Option<&HintsDocument>,
    names: &mut Interner,
    path: impl Fn() -> String,
) -> Result<Option<Box<Hints>>, Flaw> {
    let Some(document) = document else { return Ok(None) };
    let zones = hinted(document.for_zones.as_deref(), names, &path)?;
    let nodes = hinted(document.for_nodes.as_deref(), names, &path)?;
    let hints = (!zones.is_empty() || !nodes.is_empty()).then_some(Hints { zones, nodes });
    Ok(hints.map(Box::new))
}

fn hinted(
    documents: Option<&[Named]>,
    names: &mut Interner,
    path: &impl Fn() -> String,
) -> Result<Box<[Arc<str>]>, Flaw> {
    let mut share = |document: &Named| {
        let name = document.name.as_deref().unwrap_or("");
        check::subdomain(name, path).or_else(|_| check::label_value(name, path))?;
        Ok(names.share(name))
    };
    documents.unwrap_or_default().iter().map(&mut share).collect()
}
