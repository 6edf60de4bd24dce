//! Where the connections of a listener go.

use std::net::SocketAddr;
use std::time::Duration;

/// Where new connections go.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Targets {
    /// Without any, connections are refused.
    pub endpoints: Vec<SocketAddr>,
    /// How long after its last new connection a client stays with its endpoint.
    pub affinity: Option<Duration>,
}
