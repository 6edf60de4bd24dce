//! Virtual servers and destinations as netlink attributes. Unlike netfilter, IPVS uses native byte order, except for
//! ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::server::{Destination, Scheduling, ServerAddress, Timeouts};
use crate::netlink::{Attributes, Message, MessageWriter};
use crate::system::libc;

/// `struct genlmsghdr`: command, version, two bytes unused.
pub(super) const PROTOCOL_HEADER: usize = 4;

/// Commands of the netlink family.
pub(super) mod command {
    pub(in super::super) const NEW_SERVICE: u8 = 1;
    pub(in super::super) const SET_SERVICE: u8 = 2;
    pub(in super::super) const DELETE_SERVICE: u8 = 3;
    pub(in super::super) const GET_SERVICE: u8 = 4;
    pub(in super::super) const NEW_DESTINATION: u8 = 5;
    pub(in super::super) const SET_DESTINATION: u8 = 6;
    pub(in super::super) const DELETE_DESTINATION: u8 = 7;
    pub(in super::super) const GET_DESTINATION: u8 = 8;
    pub(in super::super) const SET_CONFIG: u8 = 12;
    pub(in super::super) const GET_CONFIG: u8 = 13;
    pub(in super::super) const GET_INFO: u8 = 15;
}

/// Attributes of a command, for timeouts.
pub(super) mod timeout {
    pub(in super::super) const TCP: u16 = 4;
    pub(in super::super) const TCP_FIN: u16 = 5;
    pub(in super::super) const UDP: u16 = 6;
}

const SERVICE: u16 = 1;
pub(super) const DESTINATION: u16 = 2;
const INFO_VERSION: u16 = 1;

mod service {
    pub(super) const FAMILY: u16 = 1;
    pub(super) const PROTOCOL: u16 = 2;
    pub(super) const ADDRESS: u16 = 3;
    pub(super) const PORT: u16 = 4;
    pub(super) const SCHEDULER: u16 = 6;
    pub(super) const FLAGS: u16 = 7;
    pub(super) const TIMEOUT: u16 = 8;
    pub(super) const NETMASK: u16 = 9;
}

mod destination {
    pub(super) const ADDRESS: u16 = 1;
    pub(super) const PORT: u16 = 2;
    pub(super) const METHOD: u16 = 3;
    pub(super) const WEIGHT: u16 = 4;
    pub(super) const UPPER_THRESHOLD: u16 = 5;
    pub(super) const LOWER_THRESHOLD: u16 = 6;
    pub(super) const ACTIVE: u16 = 7;
    pub(super) const INACTIVE: u16 = 8;
    pub(super) const PERSISTENT: u16 = 9;
    pub(super) const FAMILY: u16 = 11;
}

const PERSISTENT: u32 = 0x1;
/// The flags that the scheduler defines.
const SCHEDULER_FLAGS: u32 = 0x38;
const METHOD_MASK: u32 = 0x7;

/// Without scheduling, writes the address alone, which identifies a server.
pub(super) fn write_server(writer: &mut MessageWriter, server: ServerAddress, scheduling: Option<&Scheduling>) {
    writer.nest(SERVICE, |writer| {
        writer.attribute(service::FAMILY, &family(server.address.ip()).to_ne_bytes());
        writer.attribute(service::PROTOCOL, &u16::from(server.protocol).to_ne_bytes());
        writer.attribute(service::ADDRESS, &octets(server.address.ip()));
        writer.attribute(service::PORT, &server.address.port().to_be_bytes());
        if let Some(scheduling) = scheduling {
            write_scheduling(writer, server, scheduling);
        }
    });
}

fn write_scheduling(writer: &mut MessageWriter, server: ServerAddress, scheduling: &Scheduling) {
    let persistent = if scheduling.persistence.is_some() { PERSISTENT } else { 0 };
    let flags = persistent | (scheduling.flags & SCHEDULER_FLAGS);
    let [value, mask] = [flags, PERSISTENT | SCHEDULER_FLAGS].map(u32::to_ne_bytes);
    writer.string(service::SCHEDULER, &scheduling.scheduler);
    writer.attribute(service::FLAGS, &[value, mask].concat());
    writer.attribute(service::TIMEOUT, &scheduling.persistence.unwrap_or(0).to_ne_bytes());
    // Persistence is per client, not per network of clients: a mask for IPv4, a prefix length for IPv6.
    let netmask = if server.address.is_ipv4() { u32::MAX } else { 128 };
    writer.attribute(service::NETMASK, &netmask.to_ne_bytes());
}

/// Without a weight, writes the address alone, which identifies a destination.
pub(super) fn write_destination(
    writer: &mut MessageWriter,
    server: ServerAddress,
    endpoint: SocketAddr,
    weight: Option<u32>,
) {
    write_server(writer, server, None);
    writer.nest(DESTINATION, |writer| {
        write_endpoint(writer, endpoint);
        if let Some(weight) = weight {
            let masquerading = 0u32;
            writer.attribute(destination::METHOD, &masquerading.to_ne_bytes());
            writer.attribute(destination::WEIGHT, &weight.to_ne_bytes());
            writer.attribute(destination::UPPER_THRESHOLD, &0u32.to_ne_bytes());
            writer.attribute(destination::LOWER_THRESHOLD, &0u32.to_ne_bytes());
        }
    });
}

pub(super) fn write_endpoint(writer: &mut MessageWriter, endpoint: SocketAddr) {
    writer.attribute(destination::FAMILY, &family(endpoint.ip()).to_ne_bytes());
    writer.attribute(destination::ADDRESS, &octets(endpoint.ip()));
    writer.attribute(destination::PORT, &endpoint.port().to_be_bytes());
}

/// `None` also for a server that is identified by a firewall mark instead of an address.
pub(super) fn read_server(message: &Message<'_>) -> Option<(ServerAddress, Scheduling)> {
    let attributes = message.attributes(PROTOCOL_HEADER).nested(SERVICE);
    let family = number_16(attributes, service::FAMILY)?;
    let address = read_address(family, attributes.first(service::ADDRESS)?.value)?;
    let port = attributes.first(service::PORT)?.number_16()?;
    let protocol = u8::try_from(number_16(attributes, service::PROTOCOL)?).ok()?;
    let flags = number_32(attributes, service::FLAGS)?;
    let timeout = number_32(attributes, service::TIMEOUT)?;
    let scheduling = Scheduling {
        scheduler: attributes.string(service::SCHEDULER)?.to_owned(),
        persistence: (flags & PERSISTENT != 0).then_some(timeout),
        flags: flags & SCHEDULER_FLAGS,
    };
    Some((ServerAddress { address: SocketAddr::new(address, port), protocol }, scheduling))
}

pub(super) fn read_destination(message: &Message<'_>) -> Option<Destination> {
    let attributes = message.attributes(PROTOCOL_HEADER).nested(DESTINATION);
    let number = |kind| number_32(attributes, kind);
    Some(Destination {
        endpoint: read_endpoint(attributes)?,
        weight: number(destination::WEIGHT)?,
        active_connections: number(destination::ACTIVE)?,
        inactive_connections: number(destination::INACTIVE)?,
        persistent_connections: number(destination::PERSISTENT)?,
        masquerades: number(destination::METHOD)? & METHOD_MASK == 0,
    })
}

pub(super) fn read_endpoint(attributes: Attributes<'_>) -> Option<SocketAddr> {
    // Kernels before 3.18 do not report the family: it is that of the server, which the zeros after an IPv4 address
    // show.
    let octets = attributes.first(destination::ADDRESS)?.value;
    let is_short = octets.get(4..).is_none_or(|rest| rest.iter().all(|octet| *octet == 0));
    let guess = if is_short { libc::AF_INET } else { libc::AF_INET6 };
    let family = number_16(attributes, destination::FAMILY).or(u16::try_from(guess).ok())?;
    Some(SocketAddr::new(read_address(family, octets)?, attributes.first(destination::PORT)?.number_16()?))
}

pub(super) fn read_timeouts(message: &Message<'_>) -> Timeouts {
    let attributes = message.attributes(PROTOCOL_HEADER);
    let seconds = |kind| number_32(attributes, kind).unwrap_or(0);
    Timeouts { tcp: seconds(timeout::TCP), tcp_fin: seconds(timeout::TCP_FIN), udp: seconds(timeout::UDP) }
}

pub(super) fn read_version(message: &Message<'_>) -> Option<[u8; 3]> {
    let [patch, minor, major, _] = number_32(message.attributes(PROTOCOL_HEADER), INFO_VERSION)?.to_le_bytes();
    Some([major, minor, patch])
}

fn family(address: IpAddr) -> u16 {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u16::try_from(family).expect("address families are small numbers")
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            octets
        }
    }
}

fn read_address(family: u16, octets: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(*octets.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(*octets.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn number_16(attributes: Attributes<'_>, kind: u16) -> Option<u16> {
    Some(u16::from_ne_bytes(*attributes.first(kind)?.value.first_chunk()?))
}

fn number_32(attributes: Attributes<'_>, kind: u16) -> Option<u32> {
    Some(u32::from_ne_bytes(*attributes.first(kind)?.value.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Header, Messages};

    fn written(write: impl FnOnce(&mut MessageWriter)) -> Vec<u8> {
        let mut writer = MessageWriter::default();
        writer.message(Header { kind: 1, flags: 0 }, &[0; PROTOCOL_HEADER], write);
        writer.bytes().to_vec()
    }

    #[test]
    fn a_server_round_trips() {
        for address in ["10.96.0.10:80", "[fd00:10:96::a]:443"] {
            let server = ServerAddress { address: address.parse().unwrap(), protocol: 6 };
            for persistence in [None, Some(10_800)] {
                let scheduling = Scheduling { scheduler: "mh".into(), persistence, flags: 0x10 };
                let bytes = written(|writer| write_server(writer, server, Some(&scheduling)));
                let read = Messages::new(&bytes).find_map(|message| read_server(&message));
                assert_eq!(read, Some((server, scheduling)));
            }
        }
    }

    #[test]
    fn invalid_input_is_ignored() {
        let server = ServerAddress { address: "10.96.0.10:80".parse().unwrap(), protocol: 6 };
        let bytes = written(|writer| write_destination(writer, server, server.address, Some(1)));
        let message = Messages::new(&bytes).next().unwrap();
        assert_eq!(read_server(&message), None, "it has no scheduler");
        assert_eq!(read_destination(&message), None, "it has no connections");
    }
}
