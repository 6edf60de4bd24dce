//! Selects the endpoint for a client: round robin, with session affinity, suspect endpoints last.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::affinity::{Affinity, AffinityBudget};
use crate::targets::Targets;

#[derive(Default)]
pub(crate) struct Choice {
    endpoints: Vec<SocketAddr>,
    affinity: Option<Duration>,
    /// The index of the next endpoint.
    next: usize,
    clients: Affinity,
}

impl Choice {
    pub(crate) fn new(budget: AffinityBudget) -> Self {
        Choice { clients: Affinity::new(budget), ..Choice::default() }
    }

    pub(crate) fn set(&mut self, targets: Targets) {
        self.endpoints = targets.endpoints;
        self.affinity = targets.affinity;
        let has_affinity = self.affinity.is_some();
        let living: HashSet<SocketAddr> = self.endpoints.iter().copied().collect();
        self.clients.retain(|endpoint| has_affinity && living.contains(&endpoint));
    }

    pub(crate) fn endpoints(&self) -> &[SocketAddr] {
        &self.endpoints
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

    /// The next endpoint in turn that the predicate accepts.
    pub(crate) fn next(&mut self, will_do: impl Fn(SocketAddr) -> bool) -> Option<SocketAddr> {
        let count = self.endpoints.len();
        let turns = (0..count).map(|step| (self.next + step) % count);
        let found = turns.into_iter().find(|index| will_do(self.endpoints[*index]))?;
        self.next = (found + 1) % count;
        Some(self.endpoints[found])
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        self.clients.expire(now);
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

    #[test]
    fn endpoints_take_turns_and_some_are_skipped() {
        let mut choice = Choice::default();
        assert_eq!(choice.next(|_| true), None);
        choice.set(targets(&[A, B], None));
        let taken = [(); 3].map(|()| choice.next(|_| true).unwrap().to_string());
        assert_eq!(taken, [A, B, A]);
        assert_eq!(choice.next(|endpoint| endpoint.to_string() != B).unwrap().to_string(), A);
        assert_eq!(choice.next(|_| false), None);
        choice.set(targets(&[B], None));
        assert_eq!(choice.next(|_| true).unwrap().to_string(), B);
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
