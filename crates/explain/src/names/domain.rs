//! Names of the cluster's DNS zone.

use std::net::{IpAddr, Ipv6Addr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneName<'a> {
    /// `NAME.NAMESPACE`, with or without `.svc` and the domain.
    Service { name: &'a str, namespace: &'a str },
    /// `HOSTNAME.NAME.NAMESPACE.svc` and the domain: an endpoint with that hostname.
    Endpoint { hostname: &'a str, name: &'a str, namespace: &'a str },
    /// `10-244-1-2.NAMESPACE.pod` and the domain.
    Pod(IpAddr),
}

/// `None` for a text that is none of these. Names of Services and namespaces have no dots.
pub(super) fn parse<'a>(text: &'a str, domain: &str) -> Option<ZoneName<'a>> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let domain = domain.trim_end_matches('.');
    let text = text.strip_suffix(domain).and_then(|rest| rest.strip_suffix('.')).unwrap_or(text);
    let labels: Vec<&str> = text.split('.').collect();
    match *labels.as_slice() {
        [name, namespace] | [name, namespace, "svc"] => Some(ZoneName::Service { name, namespace }),
        [hostname, name, namespace, "svc"] => Some(ZoneName::Endpoint { hostname, name, namespace }),
        [address, _, "pod"] => dashed(address).map(ZoneName::Pod),
        _ => None,
    }
}

/// `10-244-1-2`, or `fd00-10-244--2`.
fn dashed(text: &str) -> Option<IpAddr> {
    let v4 = text.replace('-', ".").parse::<IpAddr>().ok();
    v4.or_else(|| text.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6))
}
