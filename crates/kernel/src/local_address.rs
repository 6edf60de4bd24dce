//! Addresses on the loopback interface: packets to them are delivered on this machine, whatever their source.

use std::net::Ipv4Addr;

use crate::error::Result;
use crate::netlink::{Header, Message, MessageWriter, Socket, flags};
use crate::system::libc;

/// The label that distinguishes our addresses from others.
const LABEL: &str = "lo:portolan";

const FAMILY: u8 = libc::AF_INET as u8;
/// The index of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const NAME: u16 = 3;
/// The length of `struct ifaddrmsg`.
const PROTOCOL_HEADER: usize = 8;

/// Adds the address; an existing one is kept. Its scope is link, so that the kernel never selects it as the source of
/// the machine's own traffic.
pub fn add_local_address(address: Ipv4Addr) -> Result<()> {
    let flags = flags::REQUEST | libc::NLM_F_CREATE as u16;
    match request(libc::RTM_NEWADDR, flags, address, &format!("adding the address {address}")) {
        Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
        answer => answer,
    }
}

/// Removes every address with our label, and returns them.
pub fn remove_local_addresses() -> Result<Vec<Ipv4Addr>> {
    let addresses = own_addresses()?;
    for address in &addresses {
        let attempted = format!("removing the address {address}");
        match request(libc::RTM_DELADDR, flags::REQUEST, *address, &attempted) {
            Err(error) if error.errno() == Some(libc::EADDRNOTAVAIL) => {}
            answer => answer?,
        }
    }
    Ok(addresses)
}

fn own_addresses() -> Result<Vec<Ipv4Addr>> {
    let mut socket = Socket::open(libc::NETLINK_ROUTE)?;
    let mut request = MessageWriter::default();
    request.message(Header { kind: libc::RTM_GETADDR, flags: flags::REQUEST }, &[0; PROTOCOL_HEADER], |_| {});
    let gather = |addresses: &mut Vec<Ipv4Addr>, message: &Message<'_>| addresses.extend(read_own(message));
    socket.dump(&mut request, "reading the addresses of the interfaces", gather)
}

fn read_own(message: &Message<'_>) -> Option<Ipv4Addr> {
    let attributes = message.attributes(PROTOCOL_HEADER);
    let is_ours = message.kind == libc::RTM_NEWADDR && attributes.string(NAME) == Some(LABEL);
    let octets: [u8; 4] = attributes.first(LOCAL).filter(|_| is_ours)?.value.try_into().ok()?;
    Some(octets.into())
}

fn request(kind: u16, flags: u16, address: Ipv4Addr, attempted: &str) -> Result<()> {
    let mut socket = Socket::open(libc::NETLINK_ROUTE)?;
    let mut request = MessageWriter::default();
    let mut fixed = [FAMILY, 32, 0, libc::RT_SCOPE_LINK, 0, 0, 0, 0];
    fixed[4..].copy_from_slice(&LOOPBACK.to_ne_bytes());
    request.message(Header { kind, flags }, &fixed, |writer| {
        writer.attribute(LOCAL, &address.octets());
        writer.attribute(ADDRESS, &address.octets());
        writer.string(NAME, LABEL);
    });
    socket.request(&mut request, attempted).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::interface_addresses;
    use crate::namespace::enter_new_network_namespace;

    /// Needs root, like all tests that change the network.
    #[test]
    fn an_address_comes_and_goes() {
        enter_new_network_namespace().unwrap();
        let address = Ipv4Addr::new(169, 254, 20, 10);
        let is_there = || interface_addresses().unwrap().iter().any(|it| it.address == address);
        assert!(!is_there());
        add_local_address(address).unwrap();
        add_local_address(address).unwrap();
        assert!(is_there());
        assert_eq!(remove_local_addresses().unwrap(), [address]);
        assert!(!is_there());
        assert_eq!(remove_local_addresses().unwrap(), [] as [Ipv4Addr; 0]);
    }
}
