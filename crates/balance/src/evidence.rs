//! What the connections of several walks say about endpoints.
//!
//! A connection counts against an endpoint if the endpoint left it without an answer for a while and has answered no other
//! since, and if its client has completed a handshake with another endpoint of the same Service: a client that is cut off by
//! a network policy, and one that forges its address, never has.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::sighting::{Pair, Sighting};
use crate::silence::Evidence;

/// A SYN is repeated after a second. An endpoint in the cluster answers within milliseconds.
const PATIENCE: Duration = Duration::from_millis(900);

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// When a connection without an answer was seen first.
    waiting: HashMap<SocketAddr, HashMap<SocketAddr, Duration>>,
    answered: HashSet<Pair>,
    last_answers: HashMap<SocketAddr, Duration>,
    refused: HashMap<SocketAddr, Vec<Refusal>>,
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

impl Memory {
    pub(crate) fn note(&mut self, sighting: Sighting, now: Duration) {
        self.note_waiting(sighting.waiting, now);
        for pair in sighting.answered.difference(&self.answered) {
            self.last_answers.insert(pair.1, now);
        }
        self.answered = sighting.answered;
        self.note_refused(sighting.refused, now);
        self.credible.clear();
        for (client, endpoint) in sighting.credible {
            self.credible.entry(client).or_default().push(endpoint);
        }
    }

    fn note_waiting(&mut self, waiting: HashSet<Pair>, now: Duration) {
        let before = std::mem::take(&mut self.waiting);
        for (client, endpoint) in waiting {
            let first = before.get(&endpoint).and_then(|clients| clients.get(&client)).copied().unwrap_or(now);
            self.waiting.entry(endpoint).or_default().insert(client, first);
        }
    }

    fn note_refused(&mut self, refused: Vec<(Pair, bool)>, now: Duration) {
        for ((client, endpoint), is_certain) in refused {
            let refusal = Refusal { client: client.ip(), time: now, is_certain };
            self.refused.entry(endpoint).or_default().push(refusal);
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

    /// About an endpoint, since a time. `is_sibling` is whether an endpoint belongs to the same Service.
    pub(crate) fn about(
        &self,
        endpoint: SocketAddr,
        since: Duration,
        now: Duration,
        is_sibling: impl Fn(&SocketAddr) -> bool,
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
        for client in clients.filter(|client| self.is_credible(*client, endpoint, &is_sibling)) {
            evidence.unanswered += 1;
            evidence.is_from_inside |= is_inside(client);
            parties.insert(party(client));
        }
        evidence.clients = parties.len();
        evidence
    }

    fn is_credible(&self, client: IpAddr, endpoint: SocketAddr, is_sibling: impl Fn(&SocketAddr) -> bool) -> bool {
        let served_by = self.credible.get(&client).into_iter().flatten();
        served_by.filter(|other| **other != endpoint).any(is_sibling)
    }
}

/// One host can have all addresses of an IPv6 subnet.
fn party(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}
