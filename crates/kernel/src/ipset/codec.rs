//! Sets and their entries as netlink attributes. Numbers are in network byte order, and their attributes are marked
//! so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use portolan_model::Protocol;

use super::entry::Entry;
use super::set::{Set, SetType};
use crate::netlink::{Attributes, Message, MessageWriter};
use crate::system::libc;

/// `struct nfgenmsg`; requests that name a set ignore the family.
pub(super) const PROTOCOL_HEADER: [u8; 4] = [2, 0, 0, 0];
const PROTOCOL: u16 = 1;
const SET_NAME: u16 = 2;
const TYPE_NAME: u16 = 3;
const REVISION: u16 = 4;
const FAMILY: u16 = 5;
const FLAGS: u16 = 6;
const DATA: u16 = 7;
const ENTRIES: u16 = 8;
/// A listing without entries.
const HEADERS_ONLY: u32 = 1 << 2;
/// The oldest protocol version that all current kernels support.
const PROTOCOL_VERSION: u8 = 6;

mod data {
    pub(super) const ADDRESS: u16 = 1;
    pub(super) const PORT: u16 = 4;
    pub(super) const PORT_TO: u16 = 5;
    pub(super) const PROTOCOL: u16 = 7;
    pub(super) const HASH_SIZE: u16 = 18;
    pub(super) const MAX_ELEMENTS: u16 = 19;
    pub(super) const OTHER_ADDRESS: u16 = 20;
    pub(super) const OTHER_LENGTH: u16 = 21;
    pub(super) const ELEMENTS: u16 = 24;
}

const ADDRESS_IPV4: u16 = 1;
const ADDRESS_IPV6: u16 = 2;
/// Marks an attribute whose number is in network byte order.
const NETWORK_ORDER: u16 = 0x4000;

/// The value of kube-proxy; the hash grows up to the maximum number of elements.
const HASH_SIZE: u32 = 1024;
const MAX_ELEMENTS: u32 = 65_536;

pub(super) fn write_name(writer: &mut MessageWriter, name: &str) {
    writer.attribute(PROTOCOL, &[PROTOCOL_VERSION]);
    writer.string(SET_NAME, name);
}

pub(super) fn write_creation(writer: &mut MessageWriter, name: &str, kind: SetType, is_ipv6: bool) {
    write_name(writer, name);
    writer.string(TYPE_NAME, kind.name());
    writer.attribute(REVISION, &[kind.revision()]);
    // Ports have no family.
    let family = match kind {
        SetType::BitmapPort => libc::AF_UNSPEC,
        _ if is_ipv6 => libc::AF_INET6,
        _ => libc::AF_INET,
    };
    writer.attribute(FAMILY, &[u8::try_from(family).expect("address families are small numbers")]);
    writer.nest(DATA, |writer| match kind {
        SetType::BitmapPort => {
            writer.attribute(data::PORT | NETWORK_ORDER, &0u16.to_be_bytes());
            writer.attribute(data::PORT_TO | NETWORK_ORDER, &u16::MAX.to_be_bytes());
        }
        _ => {
            writer.number_32(data::HASH_SIZE | NETWORK_ORDER, HASH_SIZE);
            writer.number_32(data::MAX_ELEMENTS | NETWORK_ORDER, MAX_ELEMENTS);
        }
    });
}

pub(super) fn write_entry(writer: &mut MessageWriter, name: &str, entry: &Entry) {
    write_name(writer, name);
    writer.nest(DATA, |writer| match *entry {
        Entry::Ip(address) => write_address(writer, data::ADDRESS, address),
        Entry::Port(port) => write_port(writer, port),
        Entry::IpPort(address, protocol, port) => write_socket(writer, address, protocol, port),
        Entry::IpPortIp(address, protocol, port, other) => {
            write_socket(writer, address, protocol, port);
            write_address(writer, data::OTHER_ADDRESS, other);
        }
        Entry::IpPortNet(address, protocol, port, network, length) => {
            write_socket(writer, address, protocol, port);
            write_address(writer, data::OTHER_ADDRESS, network);
            writer.attribute(data::OTHER_LENGTH, &[length]);
        }
    });
}

fn write_socket(writer: &mut MessageWriter, address: IpAddr, protocol: Protocol, port: u16) {
    write_address(writer, data::ADDRESS, address);
    write_port(writer, port);
    writer.attribute(data::PROTOCOL, &[protocol.number()]);
}

fn write_port(writer: &mut MessageWriter, port: u16) {
    writer.attribute(data::PORT | NETWORK_ORDER, &port.to_be_bytes());
}

fn write_address(writer: &mut MessageWriter, kind: u16, address: IpAddr) {
    writer.nest(kind, |writer| match address {
        IpAddr::V4(address) => writer.attribute(ADDRESS_IPV4 | NETWORK_ORDER, &address.octets()),
        IpAddr::V6(address) => writer.attribute(ADDRESS_IPV6 | NETWORK_ORDER, &address.octets()),
    });
}

/// Names no set, which means all of them.
pub(super) fn write_headers_only(writer: &mut MessageWriter) {
    writer.attribute(PROTOCOL, &[PROTOCOL_VERSION]);
    writer.number_32(FLAGS | NETWORK_ORDER, HEADERS_ONLY);
}

/// The name of a set and its number of entries.
pub(super) fn read_size(message: &Message<'_>) -> Option<(String, u32)> {
    let attributes = message.attributes(PROTOCOL_HEADER.len());
    let elements = attributes.nested(DATA).number_32(data::ELEMENTS)?;
    Some((attributes.string(SET_NAME)?.to_owned(), elements))
}

/// A large set is returned in several messages. Entries of an unknown form are skipped.
pub(super) fn read_set(message: &Message<'_>, set: &mut Option<Set>) {
    let attributes = message.attributes(PROTOCOL_HEADER.len());
    let kind = attributes.string(TYPE_NAME).and_then(SetType::from_name);
    let is_ipv6 = attributes.first(FAMILY).and_then(|it| it.number_8()).map(i32::from) == Some(libc::AF_INET6);
    let set = set.get_or_insert(Set { kind: None, is_ipv6: false, entries: Vec::new() });
    set.kind = set.kind.or(kind);
    set.is_ipv6 |= is_ipv6;
    let known = set.kind;
    let entries = attributes.nested(ENTRIES).filter(|attribute| attribute.kind == DATA);
    set.entries.extend(entries.filter_map(|attribute| read_entry(known?, attribute.nested())));
}

/// The entry of a message as [`write_entry`] writes it.
pub(super) fn read_data(kind: SetType, message: &Message<'_>) -> Option<Entry> {
    read_entry(kind, message.attributes(PROTOCOL_HEADER.len()).nested(DATA))
}

fn read_entry(kind: SetType, attributes: Attributes<'_>) -> Option<Entry> {
    let address = |kind| read_address(attributes.nested(kind));
    let port = || attributes.first(data::PORT)?.number_16();
    let socket = || {
        let protocol = Protocol::from_number(attributes.first(data::PROTOCOL)?.number_8()?)?;
        Some((address(data::ADDRESS)?, protocol, port()?))
    };
    match kind {
        SetType::HashIp => address(data::ADDRESS).map(Entry::Ip),
        SetType::BitmapPort => port().map(Entry::Port),
        SetType::HashIpPort => socket().map(|(address, protocol, port)| Entry::IpPort(address, protocol, port)),
        SetType::HashIpPortIp => {
            let ((address_of, protocol, port), other) = (socket()?, address(data::OTHER_ADDRESS)?);
            Some(Entry::IpPortIp(address_of, protocol, port, other))
        }
        SetType::HashIpPortNet => {
            let ((address_of, protocol, port), network) = (socket()?, address(data::OTHER_ADDRESS)?);
            let length = attributes.first(data::OTHER_LENGTH)?.number_8()?;
            Some(Entry::IpPortNet(address_of, protocol, port, network, length))
        }
    }
}

fn read_address(attributes: Attributes<'_>) -> Option<IpAddr> {
    if let Some(attribute) = attributes.first(ADDRESS_IPV4) {
        return Some(Ipv4Addr::from(*attribute.value.first_chunk::<4>()?).into());
    }
    let octets: [u8; 16] = *attributes.first(ADDRESS_IPV6)?.value.first_chunk()?;
    Some(Ipv6Addr::from(octets).into())
}
