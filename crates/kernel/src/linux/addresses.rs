//! The addresses of the interfaces, and notifications of changes, by netlink.

use std::collections::HashMap;
use std::ffi::CStr;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::interface_address::{InterfaceAddress, PROTOCOL_HEADER, is_change, read_address};
use crate::netlink::{Header, Message, MessageWriter, Messages, Received, Socket, flags};

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
