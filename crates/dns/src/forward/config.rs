//! The settings of forwarding.

use std::net::SocketAddr;
use std::time::Duration;

use crate::wire::Name;

/// Which upstream servers are used for which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardConfig {
    /// The longest matching suffix wins; the root matches every name.
    pub routes: Vec<RouteConfig>,
    /// The number of client queries that wait for an upstream; more are refused. One client holds half at most.
    pub max_concurrent: usize,
    /// The time for one query, over all upstreams.
    pub deadline: Duration,
    /// The time for one upstream to answer.
    pub server_timeout: Duration,
    /// Consecutive failures after which an upstream is used only as a last resort, until it answers a probe.
    pub max_fails: u32,
    /// Whether names are sent in random case, which a spoofed answer would have to guess.
    pub random_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    pub suffix: Name,
    /// Without any, the names are not forwarded.
    pub upstreams: Vec<SocketAddr>,
    pub policy: Policy,
    /// Use TCP from the start.
    pub force_tcp: bool,
}

/// Which of several upstreams is used first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Random,
    RoundRobin,
    Sequential,
}

impl Default for ForwardConfig {
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            max_concurrent: 1000,
            deadline: Duration::from_secs(5),
            server_timeout: Duration::from_secs(2),
            max_fails: 2,
            random_case: true,
        }
    }
}
