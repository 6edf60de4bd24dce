//! Probes of idle connections.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The system probes a connection while it is idle, so that a machine that vanished without a word is noticed.
pub(crate) fn probe(socket: &TcpStream, keepalive: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(keepalive).with_interval(keepalive / 3);
    SockRef::from(socket).set_tcp_keepalive(&probes)
}
