//! The endpoints of a listener, and connections to one that are to end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::HashOf;

/// The endpoints for new connections.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Targets {
    /// If empty, connections are refused. One with a greater weight than others is here as often.
    pub endpoints: Vec<SocketAddr>,
    pub selection: Selection,
    /// Session affinity: how long after its last new connection a client keeps its endpoint.
    pub affinity: Option<Duration>,
    /// Listeners with the same name here have a common share of all connections; `None` for a share of its own.
    pub share: Option<Arc<str>>,
}

/// How an endpoint is selected for a client. If it does not answer, the next ones in the list follow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Selection {
    #[default]
    InTurn,
    Random,
    ByHash(HashOf),
    /// The one with the fewest open connections through this relay, in proportion to its weight.
    LeastConnections,
}

/// Which connections are reset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resets {
    /// The name of their share.
    pub service: Arc<str>,
    pub endpoint: SocketAddr,
    /// Only those that have moved nothing for as long.
    pub idle: Duration,
    pub most: usize,
}
