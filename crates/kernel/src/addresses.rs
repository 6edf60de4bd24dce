//! The addresses of the interfaces, and notifications of changes.

use std::collections::HashMap;
use std::ffi::CStr;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::netlink::{Attributes, Header, Message, MessageWriter, Messages, Received, Socket, flags};

/// An address of an interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceAddress {
    pub interface: u32,
    pub name: String,
    pub address: IpAddr,
    pub prefix_length: u8,
}

/// The length of `struct ifaddrmsg`: family, prefix length, flags, scope, interface.
const PROTOCOL_HEADER: usize = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;

/// All addresses in the network namespace of this thread.
pub fn interface_addresses() -> Result<Vec<InterfaceAddress>> {
    let mut socket = Socket::open(libc::NETLINK_ROUTE)?;
    let mut request = MessageWriter::default();
    let header = Header { kind: libc::RTM_GETADDR, flags: flags::REQUEST };
    request.message(header, &[0; PROTOCOL_HEADER], |_| {});
    let gather = |addresses: &mut Vec<InterfaceAddress>, message: &Message<'_>| {
        addresses.extend(read_address(message));
    };
    let attempted = "reading the addresses of the interfaces";
    let mut addresses = socket.dump(&mut request, attempted, gather)?;
    fill_in_names(&mut addresses);
    Ok(addresses)
}

/// Receives the kernel's notifications of added and deleted addresses.
pub struct AddressMonitor {
    socket: Socket,
}

impl AddressMonitor {
    pub fn open() -> Result<Self> {
        let socket = Socket::open(libc::NETLINK_ROUTE)?;
        socket.subscribe(libc::RTNLGRP_IPV4_IFADDR)?;
        socket.subscribe(libc::RTNLGRP_IPV6_IFADDR)?;
        Ok(AddressMonitor { socket })
    }

    /// Waits until addresses change; false after the timeout. Changes that are pending when this returns are reported
    /// together.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if !self.socket.wait_readable(left)? {
                return Ok(false);
            }
            if self.receive_all()? {
                return Ok(true);
            }
        }
    }

    /// Drains the queue; true if it contained a change, or if some were lost.
    fn receive_all(&mut self) -> Result<bool> {
        let mut changed = false;
        loop {
            match self.socket.receive("notifications of changed addresses")? {
                Received::Nothing => return Ok(changed),
                Received::Overflow => changed = true,
                Received::Messages(bytes) => {
                    changed |= Messages::new(bytes).any(|message| is_change(&message));
                }
            }
        }
    }
}

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

/// Only interfaces with addresses are looked up: a node has hundreds without.
fn fill_in_names(addresses: &mut Vec<InterfaceAddress>) {
    let mut names: HashMap<u32, Option<String>> = HashMap::new();
    addresses.retain_mut(|address| {
        let name = names.entry(address.interface).or_insert_with_key(|interface| interface_name(*interface));
        match name {
            Some(name) => {
                address.name.clone_from(name);
                true
            }
            // The interface has been deleted, and so have its addresses.
            None => false,
        }
    });
}

fn interface_name(interface: u32) -> Option<String> {
    let mut buffer = [0; libc::IF_NAMESIZE];
    // SAFETY: the kernel's names, with their terminating zero, fit `IF_NAMESIZE` bytes.
    let name = unsafe { libc::if_indextoname(interface, buffer.as_mut_ptr()) };
    if name.is_null() {
        return None;
    }
    // SAFETY: `name` points to `buffer`, which now holds a string with its terminating zero.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}
