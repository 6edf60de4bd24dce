//! An address of an interface, and the messages that have it.

use std::net::IpAddr;

use crate::netlink::{Attributes, Message};
use crate::system::libc;

/// An address of an interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceAddress {
    pub interface: u32,
    pub name: String,
    pub address: IpAddr,
    pub prefix_length: u8,
}

/// The length of `struct ifaddrmsg`: family, prefix length, flags, scope, interface.
pub(crate) const PROTOCOL_HEADER: usize = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;

pub(crate) fn is_change(message: &Message<'_>) -> bool {
    matches!(message.kind, libc::RTM_NEWADDR | libc::RTM_DELADDR)
}

/// The name is filled in later.
pub(crate) fn read_address(message: &Message<'_>) -> Option<InterfaceAddress> {
    if message.kind != libc::RTM_NEWADDR {
        return None;
    }
    let header: [u8; PROTOCOL_HEADER] = *message.body.first_chunk()?;
    let attributes = message.attributes(PROTOCOL_HEADER);
    // On a point-to-point link, `ADDRESS` is that of the peer; IPv6 often has no `LOCAL`.
    let address = read_octets(attributes, LOCAL).or_else(|| read_octets(attributes, ADDRESS))?;
    Some(InterfaceAddress {
        interface: u32::from_ne_bytes([header[4], header[5], header[6], header[7]]),
        name: String::new(),
        address,
        prefix_length: header[1],
    })
}

fn read_octets(attributes: Attributes<'_>, kind: u16) -> Option<IpAddr> {
    let value = attributes.first(kind)?.value;
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Some(IpAddr::from(octets));
    }
    let octets: [u8; 16] = value.try_into().ok()?;
    Some(IpAddr::from(octets))
}
