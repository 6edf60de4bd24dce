//! Checks of single fields. What passes them is safe to print, to compare and to pass to the kernel.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use portolan_model::Protocol;

use super::context::Flaw;

pub(super) fn port_number(number: i32, path: impl Fn() -> String) -> Result<u16, Flaw> {
    match u16::try_from(number) {
        Ok(number @ 1..) => Ok(number),
        _ => Err(Flaw::new(path(), format!("{number} is not a port (1 to 65535)"))),
    }
}

/// A port that may be absent, which 0 means as well.
pub(super) fn optional_port(number: Option<i32>, path: impl Fn() -> String) -> Result<Option<u16>, Flaw> {
    number.filter(|number| *number != 0).map(|number| port_number(number, path)).transpose()
}

pub(super) fn protocol(name: &str, path: impl Fn() -> String) -> Result<Protocol, Flaw> {
    match name {
        "TCP" | "" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        "SCTP" => Ok(Protocol::Sctp),
        other => Err(Flaw::new(path(), format!("{other:?} is not a protocol (TCP, UDP or SCTP)"))),
    }
}

pub(super) fn address(text: &str, path: impl Fn() -> String) -> Result<IpAddr, Flaw> {
    parse_address(text).ok_or_else(|| Flaw::new(path(), format!("{text:?} is not an IP address")))
}

/// An address as Kubernetes' legacy parser reads it: leading zeros are decimal, and an IPv4-mapped address is IPv4.
pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    let parsed = text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    parsed.or_else(|| lenient_ipv4(text).map(IpAddr::V4))
}

fn lenient_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let digits = parts.next().filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *octet = digits.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// CIDRs with their host bits cleared, each with its place in the list at `path`.
pub(super) fn ranges<'a>(texts: impl IntoIterator<Item = &'a String>, path: &str) -> Result<Box<[IpNet]>, Flaw> {
    let parse = |(index, text): (usize, &'a String)| {
        let flaw = || Flaw::new(format!("{path}[{index}]"), format!("{text:?} is not a CIDR"));
        parse_range(text.trim()).ok_or_else(flaw)
    };
    texts.into_iter().enumerate().map(parse).collect()
}

fn parse_range(text: &str) -> Option<IpNet> {
    let (start, length) = text.split_once('/')?;
    let length = length.bytes().all(|byte| byte.is_ascii_digit()).then(|| length.parse().ok())??;
    Some(IpNet::new(parse_address(start)?, length).ok()?.trunc())
}

/// An address that can be that of an endpoint or an external address.
pub(super) fn usable_address(text: &str, path: impl Fn() -> String) -> Result<IpAddr, Flaw> {
    let address = address(text, &path)?;
    match special(address) {
        Some(what) => Err(Flaw::new(path(), format!("{address} is {what}"))),
        None => Ok(address),
    }
}

fn special(address: IpAddr) -> Option<&'static str> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    match address {
        _ if address.is_unspecified() => Some("the unspecified address"),
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_multicast() => Some("a multicast address"),
        _ if link_local => Some("a link-local address"),
        _ => None,
    }
}

pub(super) fn label(text: &str, path: impl Fn() -> String) -> Result<&str, Flaw> {
    let reason = "is not a DNS label (at most 63 of a-z, 0-9 and -, a letter or digit at both ends)";
    let fits = text.len() <= 63 && is_label_of_any_length(text);
    if fits { Ok(text) } else { Err(Flaw::new(path(), format!("{} {reason}", shown(text)))) }
}

pub(super) fn subdomain(text: &str, path: impl Fn() -> String) -> Result<&str, Flaw> {
    let fits = text.len() <= 253 && text.split('.').all(is_label_of_any_length);
    let reason = "is not a DNS name (at most 253 of a-z, 0-9, - and .)";
    if fits { Ok(text) } else { Err(Flaw::new(path(), format!("{} {reason}", shown(text)))) }
}

/// The value of a label, such as the name of a zone.
pub(super) fn label_value(text: &str, path: impl Fn() -> String) -> Result<&str, Flaw> {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    let fits = bytes.len() <= 63 && inner && ends(bytes.first()) && ends(bytes.last());
    if fits { Ok(text) } else { Err(Flaw::new(path(), format!("{} is not the value of a label", shown(text)))) }
}

fn is_label_of_any_length(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    inner && ends(bytes.first()) && ends(bytes.last())
}

/// A name may be long and hold control characters; the error about it does not.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(64).collect();
    if start.len() < text.len() { format!("{start:?}…") } else { format!("{start:?}") }
}
