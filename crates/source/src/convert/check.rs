//! Checks of single fields. Whatever comes out of here is safe to print, to compare and to hand to the kernel.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;
use portolan_model::Protocol;

use super::Flaw;
use crate::read::schema::Scalar;

pub(crate) fn port_number(value: &Scalar, path: impl Fn() -> String) -> Result<u16, Flaw> {
    match value {
        Scalar::Number(number @ 1..=65535) => Ok(*number as u16),
        _ => Err(Flaw::new(path(), format!("{value} is not a port (1 to 65535)"))),
    }
}

pub(crate) fn protocol(value: Option<&str>, path: impl Fn() -> String) -> Result<Protocol, Flaw> {
    match value.unwrap_or("TCP") {
        "TCP" | "" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        "SCTP" => Ok(Protocol::Sctp),
        other => Err(Flaw::new(path(), format!("{other:?} is not a protocol (TCP, UDP or SCTP)"))),
    }
}

/// An address as Kubernetes' older parser takes it: leading zeros are decimal, IPv4 in IPv6 clothes is IPv4.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    let parsed = text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    parsed.or_else(|| sloppy_ipv4(text).map(IpAddr::V4))
}

fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let digits = parts.next().filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *octet = digits.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// A range, its host bits cleared, with the same leniency as [`address`].
pub(crate) fn range(text: &str) -> Option<IpNet> {
    let (start, length) = text.split_once('/')?;
    let length = length.bytes().all(|byte| byte.is_ascii_digit()).then(|| length.parse().ok())??;
    Some(IpNet::new(address(start)?, length).ok()?.trunc())
}

/// Addresses that can be nobody's endpoint and nobody's external address.
pub(crate) fn special(address: IpAddr) -> Option<&'static str> {
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

pub(crate) fn usable_address(text: &str, path: impl Fn() -> String) -> Result<IpAddr, Flaw> {
    let address = address(text).ok_or_else(|| Flaw::new(path(), format!("{text:?} is not an IP address")))?;
    match special(address) {
        Some(what) => Err(Flaw::new(path(), format!("{address} is {what}"))),
        None => Ok(address),
    }
}

pub(crate) fn label(text: &str, path: impl Fn() -> String) -> Result<(), Flaw> {
    let reason = "is not a DNS label (at most 63 of a-z, 0-9 and -, a letter or digit at both ends)";
    if is_label(text) { Ok(()) } else { Err(Flaw::new(path(), format!("{} {reason}", shown(text)))) }
}

pub(crate) fn subdomain(text: &str, path: impl Fn() -> String) -> Result<(), Flaw> {
    let fits = text.len() <= 253 && text.split('.').all(is_label_of_any_length);
    let reason = "is not a DNS name (at most 253 of a-z, 0-9, - and .)";
    if fits { Ok(()) } else { Err(Flaw::new(path(), format!("{} {reason}", shown(text)))) }
}

/// The value of a label, such as a zone's name.
pub(crate) fn label_value(text: &str, path: impl Fn() -> String) -> Result<(), Flaw> {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    let fits = bytes.len() <= 63 && inner && ends(bytes.first()) && ends(bytes.last());
    if fits { Ok(()) } else { Err(Flaw::new(path(), format!("{} is not a label's value", shown(text)))) }
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

fn is_label_of_any_length(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    inner && ends(bytes.first()) && ends(bytes.last())
}

/// A hostile name may be long and hold control characters; the complaint about it may not.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(64).collect();
    if start.len() < text.len() { format!("{start:?}…") } else { format!("{start:?}") }
}

/// The annotation that names a scheduler of IPVS for one Service.
pub(crate) const SCHEDULER: &str = "portolan.io/scheduler";

/// The kernel's names of schedulers are short words. Whether it has this one shows when it is used; a value that cannot be
/// one is skipped, with a word, and harms nothing else of the Service.
pub(crate) fn scheduler(annotation: Option<&str>, skipped: &mut Vec<Flaw>) -> Option<Arc<str>> {
    let name = annotation.map(str::trim).filter(|name| !name.is_empty())?;
    if (1..=15).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Some(name.into());
    }
    let place = format!("metadata.annotations[{SCHEDULER}]");
    skipped.push(Flaw::new(place, format!("{name:?} is not a scheduler of IPVS: write for example lc")));
    None
}
