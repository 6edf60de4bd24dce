//! Opens ports.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

const BACKLOG: i32 = 128;

/// Opens the port for the family of the address alone.
pub(crate) fn open(address: SocketAddr) -> std::io::Result<TcpListener> {
    open_socket(address, true).map_err(Into::into)
}

/// Opens the port; the unspecified address covers both families, as in Go.
pub(crate) fn open_for_both(address: SocketAddr) -> std::io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return open(address);
    }
    let every = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
    match open_socket(every, false) {
        // The machine has no IPv6.
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if address.is_ipv4() => open(address),
        opened => opened.map_err(Into::into),
    }
}

fn open_socket(address: SocketAddr, own_family_only: bool) -> Result<TcpListener, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, own_family_only)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Closes the port at once, also where others hold the socket.
pub(crate) fn close(listener: &TcpListener) {
    _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}
