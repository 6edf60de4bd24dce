//! The endpoints of a listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The endpoints for new connections.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Targets {
    /// If empty, connections are refused.
    pub endpoints: Vec<SocketAddr>,
    /// Session affinity: how long after its last new connection a client keeps its endpoint.
    pub affinity: Option<Duration>,
    /// Listeners with the same name here have a common share of all connections; `None` for a share of its own.
    pub share: Option<Arc<str>>,
}
