//! Between objects and the documents of HNS.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_hns::{
    Endpoint, Guid, IpConfiguration, LoadBalancer, Policy, PortMapping, balancer_flags, endpoint_flags,
};
use portolan_model::{Family, Protocol};

use super::network::{Place, conjured_mac};
use super::objects::{Balancer, Distribution, Front, Role};

const BY_CLIENT: u32 = 2;

pub(super) fn endpoint(role: &Role, address: IpAddr, place: &Place) -> Endpoint {
    let is_remote = *role != Role::SourceAddress;
    Endpoint {
        policies: provider(role, address, place)
            .map(|it| Policy::provider_address(it.to_string()))
            .into_iter()
            .collect(),
        ip_configurations: vec![IpConfiguration { ip_address: address.to_string(), prefix_length: 0 }],
        mac_address: if *role == Role::Remote { conjured_mac(address) } else { place.host_mac.clone() },
        flags: if is_remote { endpoint_flags::REMOTE } else { 0 },
        ..Endpoint::default()
    }
}

fn provider(role: &Role, address: IpAddr, place: &Place) -> Option<IpAddr> {
    match role {
        Role::Remote => place.provider(address),
        _ => place.node.of_family(Family::of(address)).filter(|_| place.is_overlay),
    }
}

/// What a proxy has an endpoint for; `None` for endpoints of other programs. kube-proxy's are recognized by the same marks, so
/// that they are adopted.
pub(super) fn role(endpoint: &Endpoint, address: IpAddr, place: &Place, source_vip: Option<IpAddr>) -> Option<Role> {
    let is_mac = |mac: &str| !mac.is_empty() && endpoint.mac_address.eq_ignore_ascii_case(mac);
    let role = match endpoint.is_remote() {
        true if is_mac(&conjured_mac(address)) => Role::Remote,
        true if is_mac(&place.host_mac) => Role::ServiceAddress,
        false if place.is_overlay && Some(address) == source_vip => Role::SourceAddress,
        _ => return None,
    };
    let expected = provider(&role, address, place).map(|it| it.to_string());
    match endpoint.provider_address() == expected.as_deref() {
        true => Some(role),
        false => Some(Role::Other(format!("provider address {:?}", endpoint.provider_address()).into())),
    }
}

pub(super) fn balancer(front: &Front, balancer: &Balancer, ids: Vec<Guid>, source: Option<IpAddr>) -> LoadBalancer {
    let mapping = PortMapping {
        protocol: number(front.protocol),
        internal_port: balancer.target_port,
        external_port: front.port,
        distribution_type: if balancer.distribution == Distribution::Client { BY_CLIENT } else { 0 },
        flags: balancer.mapping_flags,
    };
    LoadBalancer {
        host_compute_endpoints: ids,
        source_vip: source.map(|it| it.to_string()).unwrap_or_default(),
        frontend_vips: front.address.iter().map(ToString::to_string).collect(),
        port_mappings: vec![mapping],
        flags: balancer.flags,
        ..LoadBalancer::default()
    }
}

/// The front end of a load balancer that a proxy can have made: with one mapping, and one address or none.
pub(super) fn front(balancer: &LoadBalancer) -> Option<Front> {
    let ([mapping], [] | [_]) = (&balancer.port_mappings[..], &balancer.frontend_vips[..]) else { return None };
    let address: Option<IpAddr> = match balancer.frontend_vips.first() {
        Some(text) => Some(text.parse().ok()?),
        None => None,
    };
    let is_v6 = address.map_or(balancer.flags & balancer_flags::IPV6 != 0, |it| it.is_ipv6());
    let protocol = Protocol::ALL.into_iter().find(|it| number(*it) == mapping.protocol)?;
    Some(Front { family: if is_v6 { Family::V6 } else { Family::V4 }, protocol, address, port: mapping.external_port })
}

pub(super) fn distribution(mapping: &PortMapping) -> Distribution {
    if mapping.distribution_type == 0 { Distribution::Connection } else { Distribution::Client }
}

fn number(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}

/// Whether both are the same but for their identities and the order of endpoints.
pub(super) fn are_alike(one: &LoadBalancer, other: &LoadBalancer) -> bool {
    let plain = |it: &LoadBalancer| {
        let mut plain = LoadBalancer { id: None, ..it.clone() };
        plain.host_compute_endpoints.sort_unstable();
        plain.frontend_vips = plain.frontend_vips.iter().map(|text| spelled(text)).collect();
        plain.source_vip = spelled(&plain.source_vip);
        plain
    };
    plain(one) == plain(other)
}

/// Addresses of IPv6 have many spellings.
fn spelled(text: &str) -> String {
    text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |address| address.to_string())
}

/// The identity of a new endpoint.
pub(super) fn endpoint_id(network: Guid, address: IpAddr) -> Guid {
    Guid::of(&format!("portolan endpoint {address} of the network {network}"))
}

/// The identity of a new load balancer.
pub(super) fn balancer_id(front: &Front) -> Guid {
    Guid::of(&format!("portolan load balancer {front}"))
}

pub(super) fn text(text: &str) -> Arc<str> {
    text.into()
}
