//! What a listener is, and where its connections go.

use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Protocol {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    V4,
    V6,
}

/// Where new connections go.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Targets {
    /// Without any, connections are refused.
    pub endpoints: Vec<SocketAddr>,
    /// How long after its last new connection a client stays with its endpoint.
    pub affinity: Option<Duration>,
}
