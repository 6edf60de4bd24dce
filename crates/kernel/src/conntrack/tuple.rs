//! One side of a flow: some or all of addresses, protocol and ports.

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

/// Bits of a filter, for the fields to compare.
const FLAG_SOURCE: u32 = 1;
const FLAG_DESTINATION: u32 = 2;
const FLAG_PROTOCOL: u32 = 8;
const FLAG_SOURCE_PORT: u32 = 16;
const FLAG_DESTINATION_PORT: u32 = 32;

const FILTER_ORIGINAL: u16 = 1;
const FILTER_REPLY: u16 = 2;

/// The known fields of one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub(super) protocol: u8,
    pub(super) source: Option<IpAddr>,
    pub(super) destination: Option<IpAddr>,
    pub(super) source_port: Option<u16>,
    pub(super) destination_port: Option<u16>,
}

impl Partial {
    pub(super) fn of_protocol(protocol: u8) -> Self {
        Partial { protocol, source: None, destination: None, source_port: None, destination_port: None }
    }

    pub(super) fn without_addresses(self) -> Self {
        Partial { source: None, destination: None, ..self }
    }

    pub(super) fn has_address_or_port(&self) -> bool {
        self.flags() != FLAG_PROTOCOL
    }

    /// The kernel compares ports only together with the protocol, so that the protocol is always set.
    pub(super) fn flags(&self) -> u32 {
        let flag = |condition, flag| if condition { flag } else { 0 };
        FLAG_PROTOCOL
            | flag(self.source.is_some(), FLAG_SOURCE)
            | flag(self.destination.is_some(), FLAG_DESTINATION)
            | flag(self.source_port.is_some(), FLAG_SOURCE_PORT)
            | flag(self.destination_port.is_some(), FLAG_DESTINATION_PORT)
    }

    pub(super) fn write(&self, writer: &mut MessageWriter, kind: u16) {
        writer.nest(kind, |writer| {
            if self.source.is_some() || self.destination.is_some() {
                writer.nest(ADDRESSES, |writer| self.write_addresses(writer));
            }
            writer.nest(PROTOCOL, |writer| self.write_protocol(writer));
        });
    }

    fn write_addresses(&self, writer: &mut MessageWriter) {
        if let Some(source) = self.source {
            write_address(writer, source, SOURCE_V4, SOURCE_V6);
        }
        if let Some(destination) = self.destination {
            write_address(writer, destination, DESTINATION_V4, DESTINATION_V6);
        }
    }

    fn write_protocol(&self, writer: &mut MessageWriter) {
        writer.attribute(PROTOCOL_NUMBER, &[self.protocol]);
        if let Some(port) = self.source_port {
            writer.attribute(SOURCE_PORT, &port.to_be_bytes());
        }
        if let Some(port) = self.destination_port {
            writer.attribute(DESTINATION_PORT, &port.to_be_bytes());
        }
    }
}

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
    let complete = Partial {
        protocol,
        source: Some(source.ip()),
        destination: Some(destination.ip()),
        source_port: Some(source.port()),
        destination_port: Some(destination.port()),
    };
    complete.write(writer, kind);
}

/// Writes which fields of the two sides to compare. Unlike all other attributes, these are in native byte order.
pub(super) fn write_filter(writer: &mut MessageWriter, kind: u16, original: u32, reply: u32) {
    writer.nest(kind, |writer| {
        writer.attribute(FILTER_ORIGINAL, &original.to_ne_bytes());
        writer.attribute(FILTER_REPLY, &reply.to_ne_bytes());
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
