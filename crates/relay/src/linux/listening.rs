//! Listening sockets.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use portolan_kernel::datagram;
use portolan_model::{Family, Protocol};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt};

use crate::error::Error;

/// The accept queue; the kernel lowers it to net.core.somaxconn.
pub(crate) const QUEUE: i32 = 65_535;

/// A socket for all local addresses of a family, on that port, or on a port that the kernel assigns if it is 0.
pub(crate) fn open(protocol: Protocol, family: Family, port: u16) -> Result<OwnedFd, Error> {
    let attempted = || format!("listening on {family} port {port}/{protocol}");
    bound(protocol, family, port).map_err(|source| Error::io(attempted(), source)).and_then(|socket| {
        prepare(&socket, protocol, family)?;
        Ok(socket)
    })
}

fn bound(protocol: Protocol, family: Family, port: u16) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(domain(family), socket_type(protocol)?, flags, None)?;
    if family == Family::V6 {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if protocol == Protocol::Tcp {
        // Connections of the previous process may still be closing on the port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &wildcard(family, port))?;
    if protocol == Protocol::Tcp {
        listen(&socket, QUEUE)?;
    }
    Ok(socket)
}

/// Checks that a socket of another process matches its description.
pub(crate) fn check(socket: &OwnedFd, protocol: Protocol, family: Family) -> Result<(), Error> {
    let is_type = sockopt::socket_type(socket).is_ok_and(|it| socket_type(protocol) == Ok(it));
    let is_family = sockopt::socket_domain(socket) == Ok(domain(family));
    let listens = protocol == Protocol::Udp || sockopt::socket_acceptconn(socket) == Ok(true);
    let is_right = is_type && is_family && listens;
    is_right.then_some(()).ok_or(Error::Malformed { reason: "a socket does not match its description" })
}

/// Sets the options that accepted connections inherit and that datagrams need. Sockets of another process need them
/// too, because it may be another version.
pub(crate) fn prepare(socket: &OwnedFd, protocol: Protocol, family: Family) -> Result<(), Error> {
    let outcome = match protocol {
        Protocol::Tcp => set_stream_options(socket).map_err(std::io::Error::from),
        Protocol::Udp => datagram::enable_local_address(socket.as_fd(), family == Family::V6),
        Protocol::Sctp => Err(Errno::PROTONOSUPPORT.into()),
    };
    outcome.map_err(|source| Error::io("setting options of a listening socket", source))
}

/// A peer that has vanished is detected after about 8 minutes, instead of the kernel's 2 hours. A peer that is idle
/// answers the probes, and keeps its connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_PROBES: u32 = 6;

/// Disables Nagle's algorithm, and enables keepalive to detect peers that have vanished.
pub(crate) fn set_stream_options(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_socket_keepalive(socket, true)
}

pub(crate) fn port(socket: &OwnedFd) -> Result<u16, Error> {
    let address = getsockname(socket).and_then(SocketAddr::try_from);
    address.map(|address| address.port()).map_err(|source| Error::io("reading the port of a socket", source))
}

/// A socket that is not connected yet.
pub(crate) fn outgoing(protocol: Protocol, to: SocketAddr) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(domain(Family::of(to.ip())), socket_type(protocol)?, flags, None)?;
    if protocol == Protocol::Tcp {
        set_stream_options(&socket)?;
    }
    Ok(socket)
}

fn wildcard(family: Family, port: u16) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

fn domain(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    }
}

fn socket_type(protocol: Protocol) -> Result<SocketType, Errno> {
    match protocol {
        Protocol::Tcp => Ok(SocketType::STREAM),
        Protocol::Udp => Ok(SocketType::DGRAM),
        Protocol::Sctp => Err(Errno::PROTONOSUPPORT),
    }
}
