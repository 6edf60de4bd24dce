//! One side of a flow: addresses, protocol and ports.

use std::net::{IpAddr, SocketAddr};

use crate::netlink::{Attributes, MessageWriter};

const ADDRESSES: u16 = 1;
const PROTOCOL: u16 = 2;

const SOURCE_V4: u16 = 1;
const DESTINATION_V4: u16 = 2;
const SOURCE_V6: u16 = 3;
const DESTINATION_V6: u16 = 4;

const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// The bit of a filter for the protocol.
const FLAG_PROTOCOL: u32 = 8;
const FILTER_ORIGINAL: u16 = 1;
const FILTER_REPLY: u16 = 2;

/// All fields of one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuple {
    pub(super) protocol: u8,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

pub(super) fn write_tuple(
    writer: &mut MessageWriter,
    kind: u16,
    protocol: u8,
    source: SocketAddr,
    destination: SocketAddr,
) {
    writer.nest(kind, |writer| {
        writer.nest(ADDRESSES, |writer| {
            write_address(writer, source.ip(), SOURCE_V4, SOURCE_V6);
            write_address(writer, destination.ip(), DESTINATION_V4, DESTINATION_V6);
        });
        writer.nest(PROTOCOL, |writer| {
            writer.attribute(PROTOCOL_NUMBER, &[protocol]);
            writer.attribute(SOURCE_PORT, &source.port().to_be_bytes());
            writer.attribute(DESTINATION_PORT, &destination.port().to_be_bytes());
        });
    });
}

/// Selects all flows of a protocol. Unlike all other attributes, those of the filter are in native byte order.
pub(super) fn write_protocol(writer: &mut MessageWriter, kind: u16, filter: u16, protocol: u8) {
    writer.nest(kind, |writer| {
        writer.nest(PROTOCOL, |writer| writer.attribute(PROTOCOL_NUMBER, &[protocol]));
    });
    writer.nest(filter, |writer| {
        writer.attribute(FILTER_ORIGINAL, &FLAG_PROTOCOL.to_ne_bytes());
        writer.attribute(FILTER_REPLY, &0_u32.to_ne_bytes());
    });
}

pub(super) fn read_tuple(tuple: Attributes<'_>) -> Option<Tuple> {
    let addresses = tuple.nested(ADDRESSES);
    let protocol = tuple.nested(PROTOCOL);
    let port = |kind| protocol.first(kind).and_then(|port| port.number_16());
    let source = read_address(addresses, SOURCE_V4, SOURCE_V6)?;
    let destination = read_address(addresses, DESTINATION_V4, DESTINATION_V6)?;
    Some(Tuple {
        protocol: protocol.first(PROTOCOL_NUMBER)?.number_8()?,
        source: SocketAddr::new(source, port(SOURCE_PORT).unwrap_or(0)),
        destination: SocketAddr::new(destination, port(DESTINATION_PORT).unwrap_or(0)),
    })
}

fn write_address(writer: &mut MessageWriter, address: IpAddr, v4: u16, v6: u16) {
    match address {
        IpAddr::V4(address) => writer.attribute(v4, &address.octets()),
        IpAddr::V6(address) => writer.attribute(v6, &address.octets()),
    }
}

fn read_address(addresses: Attributes<'_>, v4: u16, v6: u16) -> Option<IpAddr> {
    if let Some(address) = addresses.first(v4) {
        let octets: [u8; 4] = address.value.try_into().ok()?;
        return Some(IpAddr::from(octets));
    }
    let octets: [u8; 16] = addresses.first(v6)?.value.try_into().ok()?;
    Some(IpAddr::from(octets))
}
