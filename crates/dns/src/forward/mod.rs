//! Forwards queries for names outside the cluster to upstream servers.

mod config;
mod exchange;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::cache::Key;
use crate::random::Turns;
use crate::wire::{Name, Rcode, Reply};

use exchange::Exchange;
use upstream::{ForwardCounts, Upstream};

pub use config::{ForwardConfig, Policy, RouteConfig};

/// Concurrent TCP connections to upstreams. Each may hold a message of 64 KiB and its records, so that this bounds their
/// memory; a query waits for its turn within the time of its upstream.
const MAX_TCP: usize = 64;

#[derive(Debug)]
pub struct Forwarder {
    config: ForwardConfig,
    routes: Vec<Route>,
    tcp: Semaphore,
    pub(crate) counts: ForwardCounts,
}

#[derive(Debug)]
struct Route {
    config: RouteConfig,
    upstreams: Vec<Arc<Upstream>>,
    next: AtomicUsize,
}

/// Why a query was not answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    #[error("no upstream is configured for this name")]
    NoRoute,
    #[error("no upstream answered: {0}")]
    Failed(String),
}

impl Forwarder {
    pub fn new(config: ForwardConfig) -> Self {
        let mut routes: Vec<Route> = config.routes.iter().map(Route::new).collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.config.suffix.as_bytes().len()));
        Self { config, routes, tcp: Semaphore::new(MAX_TCP), counts: ForwardCounts::default() }
    }

    pub fn has_route(&self, name: &Name) -> bool {
        self.route(name).is_some()
    }

    /// The longest suffix decides; without upstreams, its names are not forwarded.
    fn route(&self, name: &Name) -> Option<&Route> {
        let found = self.routes.iter().find(|route| name.is_within(&route.config.suffix));
        found.filter(|route| !route.upstreams.is_empty())
    }

    /// Whether all upstreams of the name are down.
    pub fn is_down(&self, name: &Name) -> bool {
        let is_down = |it: &Arc<Upstream>| it.is_down(self.config.max_fails);
        self.route(name).is_none_or(|route| route.upstreams.iter().all(is_down))
    }

    /// Tries one upstream after the other until one answers or the deadline passes. NXDOMAIN is an answer; if there is
    /// none, the last error of an upstream is returned.
    pub async fn query(&self, key: &Key) -> Result<Reply, ForwardError> {
        let route = self.route(&key.name).ok_or(ForwardError::NoRoute)?;
        let query = self.query_in_turn(route, key);
        let late = |_| ForwardError::Failed(format!("timeout after {:?}", self.config.deadline));
        tokio::time::timeout(self.config.deadline, query).await.map_err(late)?
    }

    async fn query_in_turn(&self, route: &Route, key: &Key) -> Result<Reply, ForwardError> {
        let mut failure = Err(ForwardError::NoRoute);
        for upstream in route.in_turn(self.config.max_fails) {
            let Self { config, tcp, .. } = self;
            let exchange = Exchange { server: upstream.address, key, force_tcp: upstream.force_tcp, config, tcp };
            let start = Instant::now();
            let outcome = exchange.run().await;
            self.counts.observe(upstream, outcome.as_ref().ok(), start.elapsed());
            match outcome {
                Ok(reply) => {
                    upstream.answered();
                    if is_answer(&reply) {
                        return Ok(reply);
                    }
                    failure = Ok(reply);
                }
                Err(error) => {
                    self.note_failure(upstream);
                    failure = failure.or(Err(ForwardError::Failed(format!("{}: {error}", upstream.address))));
                }
            }
        }
        failure
    }

    /// An upstream with repeated failures is probed in the background until it answers.
    fn note_failure(&self, upstream: &Arc<Upstream>) {
        if upstream.failed() == self.config.max_fails {
            tracing::warn!("upstream DNS server {} does not answer; trying others first", upstream.address);
            tokio::spawn(upstream.clone().probe_until_up(self.config.clone()));
        }
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.routes.iter().flat_map(|route| &route.upstreams)
    }
}

/// With another code the upstream does not serve the name at all, and the next one may.
fn is_answer(reply: &Reply) -> bool {
    matches!(reply.rcode(), Rcode::NO_ERROR | Rcode::NX_DOMAIN)
}

impl Route {
    fn new(config: &RouteConfig) -> Self {
        let upstreams =
            config.upstreams.iter().map(|address| Arc::new(Upstream::new(*address, config.force_tcp))).collect();
        Self { config: config.clone(), upstreams, next: AtomicUsize::new(0) }
    }

    /// All upstreams in the order of the policy; those that are down come last.
    fn in_turn(&self, max_fails: u32) -> Vec<&Arc<Upstream>> {
        let first = match self.config.policy {
            Policy::Sequential => 0,
            Policy::RoundRobin => self.next.fetch_add(1, Ordering::Relaxed),
            Policy::Random => Turns::new().next() as usize,
        };
        let (before, after) = self.upstreams.split_at(first % self.upstreams.len().max(1));
        let mut all: Vec<&Arc<Upstream>> = after.iter().chain(before).collect();
        all.sort_by_key(|upstream| upstream.is_down(max_fails));
        all
    }
}
