//! Nodes: addresses, pod CIDRs and the zone. ServiceCIDRs: the ranges of ClusterIPs.

use std::net::IpAddr;

use ipnet::IpNet;

use super::context::{Context, Flaw};
use super::{check, identity};
use crate::object::NodeObject;
use crate::spec::{Node, NodeAddress, NodeSpec, ServiceCidr};

pub(crate) fn convert(object: &Node, context: &mut Context<'_>) -> Result<NodeObject, Flaw> {
    Ok(NodeObject {
        zone: identity::zone(&object.metadata, context.names)?,
        addresses: addresses(&object.status.addresses, context)?,
        pod_ranges: pod_ranges(&object.spec)?,
    })
}

/// Internal addresses before external ones, each in the order of the list; host names are skipped.
fn addresses(given: &[NodeAddress], context: &mut Context<'_>) -> Result<Box<[IpAddr]>, Flaw> {
    let of_type = |kind: &'static str| given.iter().enumerate().filter(move |(_, given)| given.r#type == kind);
    let mut address = |(index, given): (usize, &NodeAddress)| {
        let address = check::address(&given.address, || format!("status.addresses[{index}].address"));
        context.or(address.map(Some), None).transpose()
    };
    of_type("InternalIP").chain(of_type("ExternalIP")).filter_map(&mut address).collect()
}

fn pod_ranges(spec: &NodeSpec) -> Result<Box<[IpNet]>, Flaw> {
    let single = std::slice::from_ref(&spec.pod_cidr);
    let texts = if spec.pod_cidrs.is_empty() { single } else { &spec.pod_cidrs };
    check::ranges(texts.iter().filter(|text| !text.is_empty()), "spec.podCIDRs")
}

pub(crate) fn service_ranges(object: &ServiceCidr) -> Result<Box<[IpNet]>, Flaw> {
    check::ranges(&object.spec.cidrs, "spec.cidrs")
}
