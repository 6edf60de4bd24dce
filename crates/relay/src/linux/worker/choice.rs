//! Selects the endpoint for a client: by the algorithm of its Service, with session affinity, suspect endpoints last.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use portolan_model::{HashOf, client_slot, scaled};

use super::affinity::{Affinity, AffinityBudget};
use super::load::Load;
use crate::targets::{Selection, Targets};

#[derive(Default)]
pub(crate) struct Choice {
    /// One for each share of new connections.
    slots: Vec<SocketAddr>,
    /// Each endpoint once, with the number of its slots.
    weights: HashMap<SocketAddr, usize>,
    selection: Selection,
    affinity: Option<Duration>,
    /// The index of the slot whose turn it is.
    next: usize,
    random: Random,
    clients: Affinity,
}

impl Choice {
    pub(crate) fn new(budget: AffinityBudget) -> Self {
        Choice { clients: Affinity::new(budget), ..Choice::default() }
    }

    pub(crate) fn set(&mut self, targets: Targets) {
        self.slots = targets.endpoints;
        self.selection = targets.selection;
        self.affinity = targets.affinity;
        self.weights = HashMap::new();
        self.slots.iter().for_each(|endpoint| *self.weights.entry(*endpoint).or_default() += 1);
        let has_affinity = self.affinity.is_some();
        self.clients.retain(|endpoint| has_affinity && self.weights.contains_key(&endpoint));
    }

    pub(crate) fn n_endpoints(&self) -> usize {
        self.weights.len()
    }

    pub(crate) fn has(&self, endpoint: SocketAddr) -> bool {
        self.weights.contains_key(&endpoint)
    }

    /// The endpoint of the client, while its affinity lasts.
    pub(crate) fn bound(&self, client: IpAddr, now: Instant) -> Option<SocketAddr> {
        self.clients.endpoint(client, now)
    }

    /// Binds the client to this endpoint.
    pub(crate) fn bind(&mut self, client: IpAddr, endpoint: SocketAddr, now: Instant) {
        if let Some(affinity) = self.affinity {
            self.clients.set(client, endpoint, now + affinity);
        }
    }

    /// The endpoint for a client, of those that the predicate accepts.
    pub(crate) fn next(
        &mut self,
        client: SocketAddr,
        load: &Load,
        will_do: impl Fn(SocketAddr) -> bool,
    ) -> Option<SocketAddr> {
        if self.selection == Selection::LeastConnections {
            return self.least_loaded(load, will_do);
        }
        let count = self.slots.len();
        let first = self.first_slot(client);
        let turns = (0..count).map(|step| (first + step) % count);
        let found = turns.into_iter().find(|index| will_do(self.slots[*index]))?;
        self.next = (found + 1) % count;
        Some(self.slots[found])
    }

    fn first_slot(&mut self, client: SocketAddr) -> usize {
        let count = self.slots.len() as u32;
        match self.selection {
            Selection::InTurn | Selection::LeastConnections => self.next,
            Selection::Random => scaled(self.random.next(), count) as usize,
            Selection::ByHash(HashOf::Client) => client_slot(client.ip(), None, count) as usize,
            Selection::ByHash(HashOf::ClientAndPort) => client_slot(client.ip(), Some(client.port()), count) as usize,
        }
    }

    /// Of several with the same load, the next in turn.
    fn least_loaded(&mut self, load: &Load, will_do: impl Fn(SocketAddr) -> bool) -> Option<SocketAddr> {
        let count = self.slots.len();
        let mut seen = HashSet::new();
        let turns = (0..count).map(|step| (self.next + step) % count);
        let endpoints = turns.filter(|index| seen.insert(self.slots[*index]) && will_do(self.slots[*index]));
        // Shares are compared by cross multiplication: as many as there will be, by weight.
        let share = |index: &usize| (load.of(self.slots[*index]) + 1, self.weights[&self.slots[*index]]);
        let least = endpoints.min_by(|one, other| {
            let ((one, of_one), (other, of_other)) = (share(one), share(other));
            (one * of_other).cmp(&(other * of_one))
        })?;
        self.next = (least + 1) % count;
        Some(self.slots[least])
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        self.clients.expire(now);
    }
}

/// Numbers that no client can predict from those before would be wasted here: xorshift, with a random start.
struct Random(u32);

impl Default for Random {
    fn default() -> Self {
        Self(RandomState::new().build_hasher().finish() as u32 | 1)
    }
}

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(names: &[&str], affinity: Option<u64>) -> Targets {
        let endpoints = names.iter().map(|name| name.parse().unwrap()).collect();
        Targets { endpoints, affinity: affinity.map(Duration::from_secs), ..Targets::default() }
    }

    const A: &str = "10.0.0.1:80";
    const B: &str = "10.0.0.2:80";

    fn next(choice: &mut Choice, client: &str) -> String {
        choice.next(client.parse().unwrap(), &Load::default(), |_| true).unwrap().to_string()
    }

    #[test]
    fn endpoints_take_turns_and_some_are_skipped() {
        let (mut choice, load) = (Choice::default(), Load::default());
        let client = "10.9.9.9:4000".parse().unwrap();
        assert_eq!(choice.next(client, &load, |_| true), None);
        choice.set(targets(&[A, B], None));
        let taken = [(); 3].map(|()| next(&mut choice, "10.9.9.9:4000"));
        assert_eq!(taken, [A, B, A]);
        assert_eq!(choice.next(client, &load, |endpoint| endpoint.to_string() != B).unwrap().to_string(), A);
        assert_eq!(choice.next(client, &load, |_| false), None);
        choice.set(targets(&[B], None));
        assert_eq!(next(&mut choice, "10.9.9.9:4000"), B);
    }

    #[test]
    fn a_hash_gives_a_client_the_same_endpoint() {
        let mut choice = Choice::default();
        let by = |of| Targets { selection: Selection::ByHash(of), ..targets(&[A, B], None) };
        choice.set(by(HashOf::Client));
        let of_client: HashSet<String> = (1..100).map(|port| next(&mut choice, &format!("10.9.9.9:{port}"))).collect();
        assert_eq!(of_client.len(), 1);
        let clients: HashSet<String> = (1..100).map(|host| next(&mut choice, &format!("10.9.9.{host}:1"))).collect();
        assert_eq!(clients.len(), 2);
        choice.set(by(HashOf::ClientAndPort));
        let ports: HashSet<String> = (1..100).map(|port| next(&mut choice, &format!("10.9.9.9:{port}"))).collect();
        assert_eq!(ports.len(), 2);
    }

    #[test]
    fn the_least_loaded_endpoint_is_selected_by_weight() {
        let (mut choice, mut load, mut held) = (Choice::default(), Load::default(), Vec::new());
        let names = [A, A, A, B];
        choice.set(Targets { selection: Selection::LeastConnections, ..targets(&names, None) });
        for _ in 0..400 {
            let endpoint = choice.next("10.9.9.9:1".parse().unwrap(), &load, |_| true).unwrap();
            held.push(load.hold(endpoint));
        }
        assert_eq!([A, B].map(|name| load.of(name.parse().unwrap())), [300, 100]);
    }

    #[test]
    fn random_endpoints_are_as_likely() {
        let mut choice = Choice::default();
        choice.set(Targets { selection: Selection::Random, ..targets(&[A, B], None) });
        let count = (0..2000).filter(|_| next(&mut choice, "10.9.9.9:1") == A).count();
        assert!((800..1200).contains(&count), "{count}");
    }

    #[test]
    fn affinity_ends_with_its_timeout_or_with_the_endpoint() {
        let (mut choice, now) = (Choice::default(), Instant::now());
        let client: IpAddr = "10.9.9.9".parse().unwrap();
        choice.set(targets(&[A, B], Some(10)));
        choice.bind(client, B.parse().unwrap(), now);
        assert_eq!(choice.bound(client, now + Duration::from_secs(9)).unwrap().to_string(), B);
        assert_eq!(choice.bound(client, now + Duration::from_secs(10)), None);
        choice.set(targets(&[A], Some(10)));
        assert_eq!(choice.bound(client, now), None);
    }

    #[test]
    fn without_affinity_no_client_is_remembered() {
        let (mut choice, now) = (Choice::default(), Instant::now());
        let client: IpAddr = "10.9.9.9".parse().unwrap();
        choice.set(targets(&[A], None));
        choice.bind(client, A.parse().unwrap(), now);
        assert_eq!(choice.bound(client, now), None);
    }
}
