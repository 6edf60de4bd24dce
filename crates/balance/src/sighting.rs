//! One walk of the connection table, as far as watched endpoints are concerned. Its memory is bounded, whatever the table holds.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::answered::{Answered, Pair};

/// A TCP connection as the node tracks it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub client: SocketAddr,
    pub endpoint: SocketAddr,
    pub stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The endpoint has not answered the client's SYN.
    Waiting,
    /// The endpoint has answered, and the client has not.
    Answered,
    /// Both have.
    Established,
    /// It was established, and is not any more.
    Closing,
}

/// Connections without an answer beyond this are not looked at.
const MOST_WAITING: usize = 100_000;
/// The same for one endpoint: a flood to one Service does not hide the connections of others.
const MOST_OF_ENDPOINT: usize = 10_000;
/// Clients with each of their endpoints.
const MOST_CREDIBLE: usize = 100_000;

/// What a walk looks for.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    pub(crate) endpoints: Arc<HashSet<SocketAddr>>,
    /// Clients that an endpoint has not answered in the last walk. Only their other connections matter.
    pub(crate) unserved: Arc<HashSet<IpAddr>>,
    /// What the last walk has found.
    pub(crate) answered: Arc<Answered>,
}

impl Watch {
    pub fn endpoints(&self) -> &HashSet<SocketAddr> {
        &self.endpoints
    }

    pub fn concerns(&self, endpoint: &SocketAddr) -> bool {
        self.endpoints.contains(endpoint)
    }
}

#[derive(Debug, Default)]
pub struct Sighting {
    watch: Watch,
    /// Clients by endpoint.
    pub(crate) waiting: HashMap<SocketAddr, HashSet<SocketAddr>>,
    waiting_count: usize,
    pub(crate) answered: Answered,
    /// Endpoints that have answered a connection which the last walk has not found.
    pub(crate) answering: HashSet<SocketAddr>,
    /// Unserved clients that have completed a handshake with an endpoint.
    pub(crate) credible: HashSet<(IpAddr, SocketAddr)>,
    pub(crate) open: HashMap<SocketAddr, u32>,
    /// Refused since the last walk, and whether the client cannot have caused it.
    pub(crate) refused: Vec<(Pair, bool)>,
}

impl Sighting {
    pub fn of(watch: Watch) -> Self {
        Self { answered: watch.answered.emptied(), watch, ..Self::default() }
    }

    pub fn note(&mut self, seen: Seen) {
        let Seen { client, endpoint, stage } = seen;
        if !self.watch.concerns(&endpoint) {
            return;
        }
        if stage == Stage::Waiting {
            return self.note_waiting(client, endpoint);
        }
        if !self.watch.answered.contains(&(client, endpoint)) {
            self.answering.insert(endpoint);
        }
        self.answered.insert(&(client, endpoint));
        let is_complete = matches!(stage, Stage::Established | Stage::Closing);
        if is_complete && self.credible.len() < MOST_CREDIBLE && self.watch.unserved.contains(&client.ip()) {
            self.credible.insert((client.ip(), endpoint));
        }
        if stage == Stage::Established {
            *self.open.entry(endpoint).or_default() += 1;
        }
    }

    fn note_waiting(&mut self, client: SocketAddr, endpoint: SocketAddr) {
        if self.waiting_count < MOST_WAITING {
            let clients = self.waiting.entry(endpoint).or_default();
            let is_new = clients.len() < MOST_OF_ENDPOINT && clients.insert(client);
            self.waiting_count += usize::from(is_new);
        }
    }

    /// A connection that ended with a reset before it was answered. A client that resets its own connection looks the same,
    /// unless the reset is known to come from the endpoint.
    pub fn note_refused(&mut self, client: SocketAddr, endpoint: SocketAddr, is_certain: bool) {
        if self.watch.concerns(&endpoint) && self.refused.len() < MOST_OF_ENDPOINT {
            self.refused.push(((client, endpoint), is_certain));
        }
    }

    /// Adds a walk of another address family, which has other endpoints.
    pub fn add(&mut self, other: Self) {
        self.waiting.extend(other.waiting);
        self.waiting_count += other.waiting_count;
        self.answered.extend(&other.answered);
        self.answering.extend(other.answering);
        self.credible.extend(other.credible);
        self.open.extend(other.open);
        self.refused.extend(other.refused);
    }
}
