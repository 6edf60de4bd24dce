//! Deleting virtual servers of IPVS, by its generic netlink family.

use std::net::{IpAddr, SocketAddr};

use crate::error::{Error, Result};
use crate::netlink::{Header, MessageWriter, Messages, Socket, flags};

const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`: command, version, two bytes unused.
const PROTOCOL_HEADER: usize = 4;

const DELETE_SERVICE: u8 = 3;
const SERVICE: u16 = 1;
const ADDRESS_FAMILY: u16 = 1;
const PROTOCOL: u16 = 2;
const ADDRESS: u16 = 3;
const PORT: u16 = 4;

/// Deletes one virtual server; false if there was none, or no IPVS at all.
pub fn delete_virtual_server(address: SocketAddr, protocol: u8) -> Result<bool> {
    let attempted = format!("the deletion of the IPVS virtual server {address}");
    let mut socket = Socket::open(libc::NETLINK_GENERIC)?;
    let Some(family) = family_number(&mut socket)? else {
        return Ok(false);
    };
    let mut request = MessageWriter::default();
    let header = Header { kind: family, flags: flags::REQUEST };
    request.message(header, &[DELETE_SERVICE, 1, 0, 0], |writer| {
        writer.nest(SERVICE, |writer| write_service(writer, address, protocol));
    });
    // IPVS says "no such process" for a server that it does not have.
    match socket.request(&mut request, &attempted) {
        Err(error) if matches!(error.errno(), Some(libc::ESRCH | libc::ENOENT)) => Ok(false),
        answer => answer.map(|_| true),
    }
}

/// Unlike netfilter, IPVS has its numbers in the machine's byte order, but for the port.
fn write_service(writer: &mut MessageWriter, address: SocketAddr, protocol: u8) {
    let mut octets = [0; 16];
    let family = match address.ip() {
        IpAddr::V4(address) => {
            octets[..4].copy_from_slice(&address.octets());
            libc::AF_INET
        }
        IpAddr::V6(address) => {
            octets = address.octets();
            libc::AF_INET6
        }
    };
    let family = u16::try_from(family).expect("address families are small numbers");
    writer.attribute(ADDRESS_FAMILY, &family.to_ne_bytes());
    writer.attribute(PROTOCOL, &u16::from(protocol).to_ne_bytes());
    writer.attribute(ADDRESS, &octets);
    writer.attribute(PORT, &address.port().to_be_bytes());
}

/// The number that the kernel has given to IPVS; none if it has no IPVS.
fn family_number(socket: &mut Socket) -> Result<Option<u16>> {
    let attempted = "looking up the netlink family of IPVS";
    let mut request = MessageWriter::default();
    let header = Header { kind: CONTROLLER, flags: flags::REQUEST };
    request.message(header, &[GET_FAMILY, 1, 0, 0], |writer| writer.string(FAMILY_NAME, "IPVS"));
    let answer = match socket.request(&mut request, attempted) {
        Err(error) if error.is_absent() => return Ok(None),
        answer => answer?,
    };
    let number = Messages::new(&answer).find_map(|message| {
        let value = message.attributes(PROTOCOL_HEADER).first(FAMILY_ID)?.value;
        Some(u16::from_ne_bytes(*value.first_chunk()?))
    });
    number.map(Some).ok_or_else(|| Error::malformed(attempted, "it has no number"))
}
