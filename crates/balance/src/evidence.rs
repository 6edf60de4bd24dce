//! What the connections of several walks say about endpoints.
//!
//! A connection counts against an endpoint if the endpoint left it without an answer for a while and has answered no other
//! since, and if its client has completed a handshake with another endpoint of the same Service: a client that is cut off by
//! a network policy, and one that forges its address, never has. With session affinity, a handshake with the endpoint itself
//! counts.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::answered::{Answered, Pair};
use crate::sighting::Sighting;
use crate::silence::Evidence;

/// A SYN is repeated after a second. An endpoint in the cluster answers within milliseconds.
const PATIENCE: Duration = Duration::from_millis(900);

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// When a connection without an answer was seen first.
    waiting: HashMap<SocketAddr, HashMap<SocketAddr, Duration>>,
    /// In the last walk.
    pub(crate) answered: Arc<Answered>,
    last_answers: HashMap<SocketAddr, Duration>,
    refused: HashMap<SocketAddr, Vec<Refusal>>,
    /// Clients that an endpoint has not answered, or refused.
    pub(crate) unserved: Arc<HashSet<IpAddr>>,
    /// Endpoints that have served such a client.
    credible: HashMap<IpAddr, Vec<SocketAddr>>,
}

#[derive(Debug)]
struct Refusal {
    client: IpAddr,
    time: Duration,
    /// The client cannot have caused it itself.
    is_certain: bool,
}

/// How long a refusal counts.
const REFUSALS_LAST: Duration = Duration::from_secs(10);
/// Refusals by one endpoint beyond this are not needed.
const MOST_REFUSALS: usize = 1_000;

impl Memory {
    pub(crate) fn note(&mut self, sighting: Sighting, now: Duration) {
        self.note_waiting(sighting.waiting, now);
        for endpoint in sighting.answering {
            self.last_answers.insert(endpoint, now);
        }
        self.answered = Arc::new(sighting.answered);
        self.note_refused(sighting.refused, now);
        self.unserved = Arc::new(self.unserved());
        self.credible.clear();
        for (client, endpoint) in sighting.credible {
            self.credible.entry(client).or_default().push(endpoint);
        }
    }

    fn note_waiting(&mut self, waiting: HashMap<SocketAddr, HashSet<SocketAddr>>, now: Duration) {
        let before = std::mem::take(&mut self.waiting);
        for (endpoint, clients) in waiting {
            let before = before.get(&endpoint);
            let first = |client: &SocketAddr| before.and_then(|clients| clients.get(client)).copied().unwrap_or(now);
            let clients = clients.into_iter().map(|client| (client, first(&client))).collect();
            self.waiting.insert(endpoint, clients);
        }
    }

    fn unserved(&self) -> HashSet<IpAddr> {
        let waiting = self.waiting.values().flat_map(|clients| clients.keys().map(SocketAddr::ip));
        waiting.chain(self.refused.values().flatten().map(|refusal| refusal.client)).collect()
    }

    fn note_refused(&mut self, refused: Vec<(Pair, bool)>, now: Duration) {
        for ((client, endpoint), is_certain) in refused {
            let refusals = self.refused.entry(endpoint).or_default();
            if refusals.len() < MOST_REFUSALS {
                refusals.push(Refusal { client: client.ip(), time: now, is_certain });
            }
        }
        self.refused.retain(|_, refusals| {
            refusals.retain(|refusal| now.saturating_sub(refusal.time) < REFUSALS_LAST);
            !refusals.is_empty()
        });
    }

    /// Forgets endpoints that are not watched any more.
    pub(crate) fn retain(&mut self, is_watched: impl Fn(&SocketAddr) -> bool) {
        self.last_answers.retain(|endpoint, _| is_watched(endpoint));
    }

    /// About an endpoint, since a time. `vouches` is whether a client counts that an endpoint has served.
    pub(crate) fn about(
        &self,
        endpoint: SocketAddr,
        since: Duration,
        now: Duration,
        vouches: impl Fn(&SocketAddr) -> bool,
        is_inside: impl Fn(IpAddr) -> bool,
    ) -> Evidence {
        let last_answer = self.last_answers.get(&endpoint).copied().filter(|time| *time > since);
        let begin = last_answer.unwrap_or(since);
        let recent = self.waiting.get(&endpoint).into_iter().flatten().filter(|(_, first)| **first >= begin);
        let is_young = |first: &Duration| now.saturating_sub(*first) < PATIENCE;
        let is_pending = recent.clone().any(|(_, first)| is_young(first));
        let waiting = recent.filter(|(_, first)| !is_young(first));
        let refused = self.refused.get(&endpoint).into_iter().flatten();
        let refused = refused.filter(|it| it.time > begin && (it.is_certain || is_inside(it.client)));
        let clients = waiting.map(|(client, _)| client.ip()).chain(refused.map(|refusal| refusal.client));
        let mut parties = HashSet::new();
        let mut evidence = Evidence { has_answered: last_answer.is_some(), is_pending, ..Evidence::default() };
        for client in clients.filter(|client| self.is_credible(*client, &vouches)) {
            evidence.unanswered += 1;
            evidence.is_from_inside |= is_inside(client);
            parties.insert(party(client));
        }
        evidence.clients = parties.len();
        evidence
    }

    fn is_credible(&self, client: IpAddr, vouches: impl Fn(&SocketAddr) -> bool) -> bool {
        self.credible.get(&client).into_iter().flatten().any(vouches)
    }
}

/// One host can have all addresses of an IPv6 subnet.
fn party(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}
