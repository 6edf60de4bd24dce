//! Draining destinations: they keep their connections, get no new ones, and are removed when the last one has ended.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_kernel::ipvs::{Destination, Ipvs as Balancer, Requests};
use portolan_model::Protocol;

use super::objects::Server;
use crate::Error;

/// The draining destinations, and since when.
#[derive(Default)]
pub(super) struct Drains(BTreeMap<(Server, SocketAddr), Instant>);

impl Drains {
    pub(super) fn begin(&mut self, server: Server, endpoint: SocketAddr, now: Instant) {
        self.0.entry((server, endpoint)).or_insert(now);
    }

    /// The destination is wanted again.
    pub(super) fn end(&mut self, server: Server, endpoint: SocketAddr) {
        self.0.remove(&(server, endpoint));
    }

    pub(super) fn forget_server(&mut self, server: Server) {
        self.0.retain(|(of, _), _| *of != server);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn of(&self, server: Server) -> Vec<(SocketAddr, Instant)> {
        self.0.iter().filter(|((of, _), _)| *of == server).map(|((_, endpoint), since)| (*endpoint, *since)).collect()
    }

    fn servers(&self) -> Vec<Server> {
        let mut servers: Vec<Server> = self.0.keys().map(|(server, _)| *server).collect();
        servers.dedup();
        servers
    }

    /// Removes destinations without connections, and those whose drain timeout has passed.
    pub(super) fn reap(
        &mut self,
        balancer: &mut Balancer,
        longest: Option<Duration>,
        now: Instant,
    ) -> Result<(), Error> {
        let mut requests = Requests::default();
        for server in self.servers() {
            let known = balancer.destinations(server.in_kernel())?;
            for (endpoint, since) in self.of(server) {
                let found = known.iter().find(|it| it.endpoint == endpoint && it.weight == 0);
                let is_over = longest.is_some_and(|longest| now.saturating_duration_since(since) >= longest);
                if found.is_some_and(|it| is_idle(server, it) || is_over) {
                    requests.delete_destination(server.in_kernel(), endpoint);
                    self.end(server, endpoint);
                } else if found.is_none() {
                    self.end(server, endpoint);
                }
            }
        }
        if !requests.is_empty() {
            balancer.perform(requests)?;
        }
        Ok(())
    }
}

/// Only TCP shows when a connection has ended; with other protocols, waiting would send packets to an endpoint that is
/// gone.
pub(super) fn has_ends(protocol: Protocol) -> bool {
    protocol == Protocol::Tcp
}

fn is_idle(server: Server, destination: &Destination) -> bool {
    !has_ends(server.protocol) || destination.connections() == 0
}
