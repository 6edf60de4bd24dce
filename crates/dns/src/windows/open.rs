//! Opens listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

const BACKLOG: i32 = 512;
/// How often a port is assigned until one is free for both protocols.
const ATTEMPTS: usize = 16;
const QUEUE: usize = 2 << 20;
/// How often an idle thread checks whether it must stop.
const STOP_INTERVAL: Duration = Duration::from_millis(250);

/// Windows has no such limit.
pub(crate) fn raise_descriptor_limit() {}

/// Nothing is shared with another process: on Windows, queries would reach only one of them.
pub(crate) fn both(address: SocketAddr, _is_shared: bool, threads: usize) -> io::Result<(TcpListener, Vec<UdpSocket>)> {
    for _ in 0..ATTEMPTS {
        let listener = tcp(address)?;
        match udp(listener.local_addr()?, threads.max(1)) {
            Err(error) if address.port() == 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            sockets => return Ok((listener, sockets?)),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// All threads receive from one socket, and the system gives each datagram to one of them.
fn udp(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    let socket = open(address, Type::DGRAM)?;
    _ = socket.set_recv_buffer_size(QUEUE);
    socket.set_read_timeout(Some(STOP_INTERVAL))?;
    socket.bind(&address.into())?;
    let first = UdpSocket::from(socket);
    let others: Vec<_> = (1..count).map(|_| first.try_clone()).collect::<io::Result<_>>()?;
    Ok([first].into_iter().chain(others).collect())
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(address, Type::STREAM)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn open(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
