//! Virtual servers, their destinations, and timeouts.

use std::fmt;
use std::net::SocketAddr;

use crate::system::libc;

/// The identity of a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAddress {
    pub address: SocketAddr,
    /// The number of the IP protocol: 6 for TCP, 17 for UDP, 132 for SCTP.
    pub protocol: u8,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match i32::from(self.protocol) {
            libc::IPPROTO_TCP => "TCP",
            libc::IPPROTO_UDP => "UDP",
            libc::IPPROTO_SCTP => "SCTP",
            _ => "other",
        };
        write!(formatter, "{protocol} {}", self.address)
    }
}

/// How a virtual server selects a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduling {
    pub scheduler: String,
    /// Persistence: how long a client keeps its destination, in seconds.
    pub persistence: Option<u32>,
    /// Flags whose meaning depends on the scheduler (`IP_VS_SVC_F_SCHED1` to `3`).
    pub flags: u32,
}

/// A destination of a virtual server, forwarded by masquerading: NAT in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub endpoint: SocketAddr,
    pub weight: u32,
    pub active_connections: u32,
    pub inactive_connections: u32,
    /// Persistence templates of clients that are bound to it.
    pub persistent_connections: u32,
    /// False for other forwarding methods, which Portolan does not use.
    pub masquerades: bool,
}

impl Destination {
    pub fn connections(&self) -> u32 {
        self.active_connections.saturating_add(self.inactive_connections)
    }
}

/// Timeouts of idle connections, in seconds. Zero keeps the current value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    pub tcp: u32,
    pub tcp_fin: u32,
    pub udp: u32,
}
