//! Probes of idle connections.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// The kernel probes a connection while it is idle, so that a machine that vanished without a word is noticed.
pub(crate) fn probe(socket: &TcpStream, keepalive: Duration) -> io::Result<()> {
    let milliseconds = u32::try_from((keepalive * 2).as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, whole_seconds(keepalive))?;
    sockopt::set_tcp_keepintvl(socket, whole_seconds(keepalive / 3))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    Ok(sockopt::set_tcp_user_timeout(socket, milliseconds)?)
}

/// The kernel refuses a period of zero.
fn whole_seconds(period: Duration) -> Duration {
    Duration::from_secs(period.as_secs().max(1))
}
