//! EndpointSlices as the API server holds them.

use std::sync::Arc;

use portolan_model::{Conditions, Family, Hints, ServiceName, Slice, SliceEndpoint, SlicePort};

use super::super::messages::{self, EndpointPort, EndpointSlice, Named};
use super::service;
use crate::convert::{Flaw, check};
use crate::intern::Interner;
use crate::read::schema::Scalar;

/// The Service of a slice and what the slice says; `None` for one that nobody can be sent to.
pub(super) fn convert(message: &EndpointSlice, names: &mut Interner) -> Result<Option<(ServiceName, Slice)>, Flaw> {
    let Some(service) = owner(&message.metadata, names)? else { return Ok(None) };
    let Some(family) = family(&message.address_type)? else { return Ok(None) };
    let name = name(&message.metadata)?;
    let ports = ports(&message.ports, names)?;
    let endpoints = endpoints(&message.endpoints, family, names)?;
    Ok(Some((service, Slice { name, family, ports, endpoints })))
}

/// The Service that a slice names in its label.
pub(super) fn owner(metadata: &messages::Metadata, names: &mut Interner) -> Result<Option<ServiceName>, Flaw> {
    let label = metadata.labels.get("kubernetes.io/service-name").filter(|name| !name.is_empty());
    let Some(label) = label else { return Ok(None) };
    check::label(label, || "metadata.labels".to_owned())?;
    Ok(Some(ServiceName { namespace: service::namespace(metadata, names)?, name: names.share(label) }))
}

fn name(metadata: &messages::Metadata) -> Result<Arc<str>, Flaw> {
    check::subdomain(&metadata.name, || "metadata.name".to_owned())?;
    Ok(metadata.name.as_str().into())
}

/// `None` for slices of names, which nobody can be sent to.
fn family(address_type: &str) -> Result<Option<Family>, Flaw> {
    match address_type {
        "IPv4" => Ok(Some(Family::V4)),
        "IPv6" => Ok(Some(Family::V6)),
        "FQDN" => Ok(None),
        other => Err(Flaw::new("addressType", format!("{other:?} is not an address type that we know"))),
    }
}

/// A port without a name field or without a number is passed over, as kube-proxy does.
fn ports(messages: &[EndpointPort], names: &mut Interner) -> Result<Box<[SlicePort]>, Flaw> {
    let mut ports = Vec::with_capacity(messages.len());
    for message in messages {
        let (Some(name), Some(number)) = (&message.name, message.port.filter(|number| *number != 0)) else { continue };
        if !name.is_empty() {
            check::label(name, || "ports[].name".to_owned())?;
        }
        ports.push(SlicePort {
            name: names.share(name),
            protocol: check::protocol(message.protocol.as_deref(), || "ports[].protocol".to_owned())?,
            port: check::port_number(&Scalar::Number(number.into()), || "ports[].port".to_owned())?,
        });
    }
    Ok(ports.into())
}

fn endpoints(
    messages: &[messages::Endpoint],
    family: Family,
    names: &mut Interner,
) -> Result<Box<[SliceEndpoint]>, Flaw> {
    let mut endpoints = Vec::with_capacity(messages.len());
    for message in messages {
        endpoints.extend(endpoint(message, family, names)?);
    }
    Ok(endpoints.into())
}

/// Only the first address counts; an endpoint without any is passed over.
fn endpoint(message: &messages::Endpoint, family: Family, names: &mut Interner) -> Result<Option<SliceEndpoint>, Flaw> {
    let path = || "endpoints[].addresses".to_owned();
    let Some(text) = message.addresses.first() else { return Ok(None) };
    let address = check::usable_address(text, path)?;
    if Family::of(address) != family {
        return Err(Flaw::new(path(), format!("{address} is not an {family} address")));
    }
    let node = message.node_name.as_deref().filter(|name| !name.is_empty());
    Ok(Some(SliceEndpoint {
        address,
        conditions: conditions(message.conditions.as_ref()),
        node: node.map(|name| shared(name, "endpoints[].nodeName", names)).transpose()?,
        hints: message.hints.as_ref().map(|hints| self::hints(hints, names)).transpose()?.flatten(),
        hostname: message.hostname.as_deref().filter(|name| !name.is_empty()).map(hostname).transpose()?,
    }))
}

/// What is not said counts as well: ready and serving, and not terminating.
fn conditions(message: Option<&messages::Conditions>) -> Conditions {
    let Some(message) = message else { return Conditions::READY };
    Conditions {
        ready: message.ready.unwrap_or(true),
        serving: message.serving.unwrap_or(true),
        terminating: message.terminating.unwrap_or(false),
    }
}

fn hostname(name: &str) -> Result<Box<str>, Flaw> {
    check::label(name, || "endpoints[].hostname".to_owned())?;
    Ok(name.into())
}

fn hints(message: &messages::Hints, names: &mut Interner) -> Result<Option<Box<Hints>>, Flaw> {
    let zones = hinted(&message.for_zones, names)?;
    let nodes = hinted(&message.for_nodes, names)?;
    let is_empty = zones.is_empty() && nodes.is_empty();
    Ok((!is_empty).then(|| Box::new(Hints { zones, nodes })))
}

fn hinted(messages: &[Named], names: &mut Interner) -> Result<Box<[Arc<str>]>, Flaw> {
    messages.iter().map(|message| shared(&message.name, "endpoints[].hints", names)).collect()
}

/// The name of a node or a zone.
fn shared(name: &str, path: &str, names: &mut Interner) -> Result<Arc<str>, Flaw> {
    let path = || path.to_owned();
    check::subdomain(name, path).or_else(|_| check::label_value(name, path))?;
    Ok(names.share(name))
}
