//! Nodes: addresses, pod ranges and the zone.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::{Context, Flaw, check};
use crate::object::{NodeObject, Object, ObjectId};
use crate::read::schema::{NodeAddress, NodeDocument, NodeSpec};

pub(super) fn convert(document: NodeDocument, context: &mut Context<'_>, _: &ObjectId) -> Result<Object, Flaw> {
    let addresses = document.status.and_then(|status| status.addresses).unwrap_or_default();
    let node = NodeObject {
        zone: zone(document.metadata.and_then(|mut metadata| metadata.labels.take()), context)?,
        addresses: all_addresses(&addresses)?.into(),
        pod_ranges: pod_ranges(document.spec.unwrap_or_default())?,
    };
    Ok(Object::Node(Box::new(node)))
}

fn zone(labels: Option<crate::read::schema::Labels>, context: &mut Context<'_>) -> Result<Option<Arc<str>>, Flaw> {
    let labels = labels.unwrap_or_default();
    let zone = labels.get("topology.kubernetes.io/zone").and_then(|zone| zone.as_deref());
    let Some(zone) = zone.filter(|zone| !zone.is_empty()) else { return Ok(None) };
    check::label_value(zone, || "metadata.labels".to_owned())?;
    Ok(Some(context.names.share(zone)))
}

/// Internal addresses before external ones, each in the order of the list; host names are passed over.
fn all_addresses(documents: &[NodeAddress]) -> Result<Vec<IpAddr>, Flaw> {
    let mut addresses = addresses_of(documents, "InternalIP")?;
    addresses.extend(addresses_of(documents, "ExternalIP")?);
    Ok(addresses)
}

fn addresses_of(documents: &[NodeAddress], kind: &str) -> Result<Vec<IpAddr>, Flaw> {
    let parse = |(index, document): (usize, &NodeAddress)| {
        let text = document.address.as_deref().unwrap_or("");
        let path = format!("status.addresses[{index}].address");
        check::address(text).ok_or_else(|| Flaw::new(path, format!("{text:?} is not an IP address")))
    };
    let of_kind = |document: &NodeAddress| document.r#type.as_deref() == Some(kind);
    documents.iter().enumerate().filter(|(_, document)| of_kind(document)).map(parse).collect()
}

fn pod_ranges(spec: NodeSpec) -> Result<Box<[IpNet]>, Flaw> {
    let single = spec.pod_cidr.filter(|text| !text.is_empty()).map(|text| vec![text]);
    let texts = spec.pod_cidrs.filter(|texts| !texts.is_empty()).or(single).unwrap_or_default();
    let parse = |(index, text): (usize, &String)| {
        let path = format!("spec.podCIDRs[{index}]");
        check::range(text).ok_or_else(|| Flaw::new(path, format!("{text:?} is not a range of addresses")))
    };
    texts.iter().enumerate().map(parse).collect()
}
