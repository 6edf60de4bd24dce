//! EndpointSlices.

use std::sync::Arc;

use portolan_model::{Conditions, Extras, Family, Hints, Place, Slice, SliceEndpoint, SlicePort, Weight};

use super::context::{Context, Flaw};
use super::identity::{hostname, node_name, pod_name};
use super::{balancing, check};
use crate::intern::Interner;
use crate::object::{ObjectId, SliceObject};
use crate::spec::{self, EndpointPort, EndpointSlice, Metadata, Named};

/// The controllers that make slices from Pods and Endpoints in a cluster.
const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

pub(crate) fn convert(object: &EndpointSlice, id: &ObjectId, context: &mut Context<'_>) -> Result<SliceObject, Flaw> {
    let metadata = &object.metadata;
    let family = family(&object.address_type)?;
    let weight = balancing::weight(metadata, context);
    let slice = Slice {
        name: id.name.clone(),
        family: family.unwrap_or(Family::V4),
        is_for_names_only: metadata.label("service.kubernetes.io/headless").is_some(),
        ports: ports(&object.ports, "ports", context)?,
        endpoints: match family {
            Some(family) => {
                let common = Common { family, weight, namespace: &id.namespace };
                endpoints(&object.endpoints, common, context.names)?
            }
            None => [].into(),
        },
    };
    let manager = metadata.label("endpointslice.kubernetes.io/managed-by");
    Ok(SliceObject {
        service: service_name(metadata, context.names)?.filter(|_| family.is_some()),
        headless: slice.is_for_names_only,
        managed: manager.is_some_and(|manager| CONTROLLERS.contains(&manager)),
        slice: Arc::new(slice),
    })
}

/// The Service that a slice names in its label.
pub(crate) fn service_name(metadata: &Metadata, names: &mut Interner) -> Result<Option<Arc<str>>, Flaw> {
    let Some(name) = metadata.label("kubernetes.io/service-name").filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    check::label(name, || "metadata.labels".to_owned())?;
    Ok(Some(names.share(name)))
}

/// `None` for slices of host names, which have no address to forward to.
fn family(address_type: &str) -> Result<Option<Family>, Flaw> {
    let supported = "(IPv4, IPv6 or FQDN)";
    match address_type {
        "IPv4" => Ok(Some(Family::V4)),
        "IPv6" => Ok(Some(Family::V6)),
        "FQDN" => Ok(None),
        "" => Err(Flaw::new("addressType", format!("an address type is required {supported}"))),
        other => Err(Flaw::new("addressType", format!("{other:?} is not an address type {supported}"))),
    }
}

pub(super) fn ports(ports: &[EndpointPort], path: &str, context: &mut Context<'_>) -> Result<Box<[SlicePort]>, Flaw> {
    let ports = ports.iter().enumerate();
    let ports = ports.map(|(index, given)| port(given, &format!("{path}[{index}]"), context));
    ports.filter_map(Result::transpose).collect()
}

/// A port without a number is skipped, as kube-proxy does. In a manifest an absent name is the empty one, as the API server
/// fills it in; in an object from the API server it is skipped, too.
fn port(port: &EndpointPort, path: &str, context: &mut Context<'_>) -> Result<Option<SlicePort>, Flaw> {
    let name = match &port.name {
        Some(name) => name,
        None if context.is_strict() => "",
        None => return Ok(None),
    };
    if !name.is_empty() {
        check::label(name, || format!("{path}.name"))?;
    }
    let protocol = check::protocol(&port.protocol, || format!("{path}.protocol"))?;
    let number = check::optional_port(port.port, || format!("{path}.port"))?;
    Ok(number.map(|port| SlicePort { name: context.names.share(name), protocol, port }))
}

/// What the endpoints of a slice have in common.
#[derive(Clone, Copy)]
struct Common<'a> {
    family: Family,
    weight: Weight,
    namespace: &'a str,
}

fn endpoints(
    endpoints: &[spec::Endpoint],
    common: Common<'_>,
    names: &mut Interner,
) -> Result<Box<[SliceEndpoint]>, Flaw> {
    let converted = endpoints.iter().enumerate().map(|(index, given)| endpoint(given, index, common, names));
    converted.filter_map(Result::transpose).collect()
}

/// Only the first address counts; an endpoint without any is skipped.
fn endpoint(
    endpoint: &spec::Endpoint,
    index: usize,
    common: Common<'_>,
    names: &mut Interner,
) -> Result<Option<SliceEndpoint>, Flaw> {
    let path = |field: &str| format!("endpoints[{index}].{field}");
    let Some(text) = endpoint.addresses.first() else { return Ok(None) };
    let address = check::usable_address(text, || path("addresses[0]"))?;
    if Family::of(address) != common.family {
        return Err(Flaw::new(path("addresses[0]"), format!("{address} is not an {} address", common.family)));
    }
    let node = node_name(&endpoint.node_name, names, || path("nodeName"))?;
    let zone = zone(&endpoint.zone, names);
    let hints = hints(endpoint.hints.as_ref(), names, || path("hints"))?;
    let hostname = hostname(&endpoint.hostname, || path("hostname"))?;
    Ok(Some(SliceEndpoint {
        address,
        conditions: conditions(endpoint.conditions.as_ref()),
        weight: common.weight,
        place: names.place(Place { node, zone }),
        pod: pod_name(endpoint.target_ref.as_ref(), common.namespace),
        extras: Extras { hints, hostname }.boxed(),
    }))
}

/// An API server accepts any text here. One that is no label value is the zone of no node, and costs no endpoint.
fn zone(text: &str, names: &mut Interner) -> Option<Arc<str>> {
    let zone = check::label_value(text, String::new).ok().filter(|zone| !zone.is_empty())?;
    Some(names.share(zone))
}

/// An absent condition means ready, serving and not terminating.
fn conditions(given: Option<&spec::Conditions>) -> Conditions {
    let Some(given) = given else { return Conditions::READY };
    Conditions {
        ready: given.ready.unwrap_or(true),
        serving: given.serving.unwrap_or(true),
        terminating: given.terminating.unwrap_or(false),
    }
}

fn hints(hints: Option<&spec::Hints>, names: &mut Interner, path: impl Fn() -> String) -> Result<Hints, Flaw> {
    let Some(hints) = hints else { return Ok(Hints::default()) };
    let zones = hinted(&hints.for_zones, names, &path)?;
    let nodes = hinted(&hints.for_nodes, names, &path)?;
    Ok(Hints { zones, nodes })
}

/// Names of zones, which are label values, or of nodes, which are DNS names.
fn hinted(hints: &[Named], names: &mut Interner, path: impl Fn() -> String) -> Result<Box<[Arc<str>]>, Flaw> {
    let share = |hint: &Named| {
        let name = check::subdomain(&hint.name, &path).or_else(|_| check::label_value(&hint.name, &path))?;
        Ok(names.share(name))
    };
    hints.iter().map(share).collect()
}
