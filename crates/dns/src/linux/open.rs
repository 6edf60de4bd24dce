//! Opens listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use portolan_kernel::datagram;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const BACKLOG: i32 = 512;
/// How often a port is assigned until one is free for both protocols.
const ATTEMPTS: usize = 16;
/// The receive buffer for datagrams that arrive while a thread is busy or waits for a core; the kernel may grant less.
/// A thread that is behind empties it in a few milliseconds.
const QUEUE: usize = 2 << 20;
/// How often an idle thread checks whether it must stop.
const STOP_INTERVAL: Duration = Duration::from_millis(250);

/// Connections of clients and queries to upstreams need a descriptor each; the usual soft limit of 1024 is too few.
pub(crate) fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// With port 0 the kernel assigns a port for TCP, which may be in use for UDP; then the next one is tried.
pub(crate) fn both(address: SocketAddr, is_shared: bool, threads: usize) -> io::Result<(TcpListener, Vec<UdpSocket>)> {
    for _ in 0..ATTEMPTS {
        let listener = tcp(address, is_shared)?;
        match udp(listener.local_addr()?, is_shared, threads.max(1)) {
            Err(error) if address.port() == 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            sockets => return Ok((listener, sockets?)),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Sockets that share the address: the kernel distributes clients over them. Unless another process may share it, too, the
/// first one is bound alone: a socket that another server leaves behind on the port would take queries and lose them.
fn udp(address: SocketAddr, is_shared: bool, count: usize) -> io::Result<Vec<UdpSocket>> {
    let first = one_udp(address, is_shared)?;
    sockopt::set_socket_reuseport(&first, true)?;
    let others = (1..count).map(|_| one_udp(address, true));
    [Ok(first)].into_iter().chain(others).collect()
}

fn one_udp(address: SocketAddr, is_shared: bool) -> io::Result<UdpSocket> {
    let socket = open(address, SocketType::DGRAM, SocketFlags::CLOEXEC)?;
    sockopt::set_socket_reuseport(&socket, is_shared)?;
    _ = sockopt::set_socket_recv_buffer_size(&socket, QUEUE);
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(STOP_INTERVAL))?;
    datagram::enable_local_address(socket.as_fd(), address.is_ipv6())?;
    bind(&socket, &address)?;
    Ok(socket.into())
}

fn tcp(address: SocketAddr, is_shared: bool) -> io::Result<TcpListener> {
    let socket = open(address, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, is_shared)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn open(address: SocketAddr, kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}
