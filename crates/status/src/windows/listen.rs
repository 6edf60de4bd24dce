//! Opens ports. Windows lets two programs share an address if one of them asks for reuse, so that none is asked for.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

const BACKLOG: i32 = 128;

/// Opens the port for the family of the address alone.
pub(crate) fn open(address: SocketAddr) -> io::Result<TcpListener> {
    open_socket(address, true)
}

/// Opens the port; the unspecified address covers both families, as in Go.
pub(crate) fn open_for_both(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return open(address);
    }
    let every = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
    // The machine may have no IPv6.
    open_socket(every, false).or_else(|error| if address.is_ipv4() { open(address) } else { Err(error) })
}

fn open_socket(address: SocketAddr, own_family_only: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(own_family_only)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Windows ends a listening socket with its last handle, which the task releases when it is polled next.
pub(crate) fn close(_listener: &TcpListener) {}
