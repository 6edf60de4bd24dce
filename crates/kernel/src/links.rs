//! Network interfaces by name: whether one is there, and taking one away.

use crate::error::{Error, Result};
use crate::netlink::{Header, MessageWriter, Socket, flags};

/// The length of `struct ifinfomsg`.
const PROTOCOL_HEADER: usize = 16;
const NAME: u16 = 3;

/// Whether the network namespace of this thread has an interface of that name.
pub fn link_exists(name: &str) -> Result<bool> {
    match request(libc::RTM_GETLINK, name, &format!("reading the interface {name}")) {
        Err(error) if is_missing(&error) => Ok(false),
        answer => answer.map(|()| true),
    }
}

/// Deletes the interface; false if there was none.
pub fn delete_link(name: &str) -> Result<bool> {
    match request(libc::RTM_DELLINK, name, &format!("the deletion of the interface {name}")) {
        Err(error) if is_missing(&error) => Ok(false),
        answer => answer.map(|()| true),
    }
}

fn request(kind: u16, name: &str, attempted: &str) -> Result<()> {
    let mut socket = Socket::open(libc::NETLINK_ROUTE)?;
    let mut request = MessageWriter::default();
    request.message(Header { kind, flags: flags::REQUEST }, &[0; PROTOCOL_HEADER], |writer| writer.string(NAME, name));
    socket.request(&mut request, attempted).map(drop)
}

fn is_missing(error: &Error) -> bool {
    error.errno() == Some(libc::ENODEV)
}
