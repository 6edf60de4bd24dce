//! One walk of the connection table, as far as watched endpoints are concerned.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

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

/// Waiting connections beyond this are not looked at: a flood must not cost memory.
const MOST_WAITING: usize = 100_000;

#[derive(Debug, Default)]
pub struct Sighting {
    watched: Arc<HashSet<SocketAddr>>,
    pub(crate) waiting: HashSet<Pair>,
    pub(crate) answered: HashSet<Pair>,
    /// Clients that have completed a handshake with an endpoint.
    pub(crate) credible: HashSet<(IpAddr, SocketAddr)>,
    pub(crate) open: HashMap<SocketAddr, u32>,
    /// Refused since the last walk, and whether the client cannot have caused it.
    pub(crate) refused: Vec<(Pair, bool)>,
}

/// Client and endpoint.
pub(crate) type Pair = (SocketAddr, SocketAddr);

impl Sighting {
    pub fn of(watched: Arc<HashSet<SocketAddr>>) -> Self {
        Self { watched, ..Self::default() }
    }

    pub fn note(&mut self, seen: Seen) {
        let Seen { client, endpoint, stage } = seen;
        if !self.watched.contains(&endpoint) {
            return;
        }
        if stage == Stage::Waiting {
            if self.waiting.len() < MOST_WAITING {
                self.waiting.insert((client, endpoint));
            }
            return;
        }
        self.answered.insert((client, endpoint));
        if matches!(stage, Stage::Established | Stage::Closing) {
            self.credible.insert((client.ip(), endpoint));
        }
        if stage == Stage::Established {
            *self.open.entry(endpoint).or_default() += 1;
        }
    }

    /// A connection that ended with a reset before it was answered. A client that resets its own connection looks the same,
    /// unless the reset is known to come from the endpoint.
    pub fn note_refused(&mut self, client: SocketAddr, endpoint: SocketAddr, is_certain: bool) {
        if self.watched.contains(&endpoint) && self.refused.len() < MOST_WAITING {
            self.refused.push(((client, endpoint), is_certain));
        }
    }
}
