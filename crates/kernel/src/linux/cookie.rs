//! The number of a network namespace that programs know it by.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::error::{Error, Result};

/// `SO_NETNS_COOKIE`, since 5.14.
const NETNS_COOKIE: libc::c_int = 71;

/// The cookie of the calling thread's network namespace. It is unique until the machine is started again.
pub fn network_namespace_cookie() -> Result<u64> {
    let attempted = "reading the cookie of the network namespace (needs Linux 5.14)";
    // The address is not used: any socket belongs to the namespace.
    let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(|error| Error::io(attempted, error))?;
    let mut cookie = 0u64;
    let mut length = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the option writes eight bytes, which is the length given.
    let outcome = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, NETNS_COOKIE, (&raw mut cookie).cast(), &raw mut length)
    };
    if outcome == 0 { Ok(cookie) } else { Err(Error::last(attempted)) }
}
