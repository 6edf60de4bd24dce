//! The own Node, and the ranges of ClusterIPs.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use portolan_model::Node;

use super::super::messages;
use super::super::state::NodeState;
use crate::convert::{Flaw, check};

/// What the cluster autoscaler puts on a node that it is about to remove.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

pub(super) fn convert(message: &messages::Node, name: &Arc<str>) -> Result<Node, Flaw> {
    Ok(Node {
        name: name.clone(),
        zone: zone(&message.metadata)?,
        addresses: addresses(&message.status.addresses).into(),
        pod_ranges: pod_ranges(&message.spec)?,
        interface_addresses: [].into(),
    })
}

pub(super) fn state(message: &messages::Node) -> NodeState {
    NodeState::Present {
        deleting: message.metadata.deletion_timestamp.is_some(),
        to_be_deleted_taint: message.spec.taints.iter().any(|taint| taint.key == TO_BE_DELETED),
    }
}

fn zone(metadata: &messages::Metadata) -> Result<Option<Arc<str>>, Flaw> {
    let zone = metadata.labels.get("topology.kubernetes.io/zone").filter(|zone| !zone.is_empty());
    let Some(zone) = zone else { return Ok(None) };
    check::label_value(zone, || "metadata.labels".to_owned())?;
    Ok(Some(zone.as_str().into()))
}

/// Internal addresses before external ones, each in the order of the list; what is no address is passed over.
fn addresses(messages: &[messages::NodeAddress]) -> Vec<IpAddr> {
    let of_kind = |kind: &'static str| messages.iter().filter(move |message| message.r#type == kind);
    let ordered = of_kind("InternalIP").chain(of_kind("ExternalIP"));
    ordered.filter_map(|message| check::address(&message.address)).collect()
}

fn pod_ranges(spec: &messages::NodeSpec) -> Result<Box<[IpNet]>, Flaw> {
    let single = std::slice::from_ref(&spec.pod_cidr);
    let texts = if spec.pod_cidrs.is_empty() { single } else { &spec.pod_cidrs };
    ranges(texts.iter().filter(|text| !text.is_empty()), "spec.podCIDRs")
}

pub(super) fn service_ranges(message: &messages::ServiceCidr) -> Result<Box<[IpNet]>, Flaw> {
    ranges(message.spec.cidrs.iter(), "spec.cidrs")
}

fn ranges<'a>(texts: impl Iterator<Item = &'a String>, path: &str) -> Result<Box<[IpNet]>, Flaw> {
    let parse = |text: &String| {
        check::range(text).ok_or_else(|| Flaw::new(path, format!("{text:?} is not a range of addresses")))
    };
    texts.map(parse).collect()
}
