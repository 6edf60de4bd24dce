//! The health of endpoints: failures are remembered for a backoff time, so that other clients do not wait for them
//! too.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_model::Protocol;

/// The backoff after the first failure, and its maximum. It doubles with each failure.
const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// How long other clients avoid a suspect endpoint while one client dials it.
const PROBE_TIME: Duration = Duration::from_secs(1);

/// How long after its backoff a failure counts as a repeated one.
const RETENTION: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(crate) struct EndpointHealth(HashMap<(Protocol, SocketAddr), Suspect>);

struct Suspect {
    failures: u32,
    /// Until this time further failures count as the same one: those of concurrent clients.
    settled: Instant,
    /// Until this time the endpoint is tried last.
    until: Instant,
}

impl EndpointHealth {
    pub(crate) fn is_suspect(&self, protocol: Protocol, endpoint: SocketAddr, now: Instant) -> bool {
        // Usually no endpoint is suspect.
        !self.0.is_empty() && self.0.get(&(protocol, endpoint)).is_some_and(|suspect| now < suspect.until)
    }

    /// The endpoint is slow, which may be temporary.
    pub(crate) fn mark_slow(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) {
        let suspect = self.entry(protocol, endpoint, now);
        suspect.until = suspect.until.max(now + PROBE_TIME);
    }

    pub(crate) fn failed(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) {
        let suspect = self.entry(protocol, endpoint, now);
        if suspect.failures == 0 || now >= suspect.settled {
            suspect.failures += 1;
            suspect.settled = now + backoff(suspect.failures);
        }
        suspect.until = suspect.until.max(suspect.settled);
    }

    pub(crate) fn answered(&mut self, protocol: Protocol, endpoint: SocketAddr) {
        if !self.0.is_empty() {
            self.0.remove(&(protocol, endpoint));
        }
    }

    /// A client dials the endpoint. If it is suspect, other clients avoid it until the result is known.
    pub(crate) fn dialed(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) {
        if let Some(suspect) = self.0.get_mut(&(protocol, endpoint)) {
            suspect.until = suspect.until.max(now + PROBE_TIME);
        }
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, suspect| now < suspect.until + RETENTION);
    }

    fn entry(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) -> &mut Suspect {
        self.0.entry((protocol, endpoint)).or_insert(Suspect { failures: 0, settled: now, until: now })
    }
}

fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(8);
    (INITIAL_BACKOFF * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: Protocol = Protocol::Tcp;

    fn endpoint() -> SocketAddr {
        "10.0.0.1:80".parse().unwrap()
    }

    /// For how many seconds the endpoint is suspect.
    fn suspect_for(health: &EndpointHealth, now: Instant) -> u64 {
        (0..).find(|second| !health.is_suspect(TCP, endpoint(), now + Duration::from_secs(*second))).unwrap()
    }

    #[test]
    fn backoff_doubles_with_each_failure_and_ends_with_success() {
        let mut health = EndpointHealth::default();
        let mut now = Instant::now();
        for expected in [10, 20, 40, 60, 60] {
            health.failed(TCP, endpoint(), now);
            assert_eq!(suspect_for(&health, now), expected);
            now += Duration::from_secs(expected);
        }
        health.answered(TCP, endpoint());
        health.failed(TCP, endpoint(), now);
        assert_eq!(suspect_for(&health, now), 10);
        assert!(!health.is_suspect(Protocol::Udp, endpoint(), now), "health is per protocol");
    }

    #[test]
    fn failures_within_one_backoff_count_once() {
        let mut health = EndpointHealth::default();
        let now = Instant::now();
        (0..30).for_each(|step| health.failed(TCP, endpoint(), now + Duration::from_millis(step)));
        assert_eq!(suspect_for(&health, now), 10);
    }

    #[test]
    fn one_client_probes_after_the_backoff() {
        let mut health = EndpointHealth::default();
        let now = Instant::now();
        health.failed(TCP, endpoint(), now);
        let later = now + INITIAL_BACKOFF;
        assert!(!health.is_suspect(TCP, endpoint(), later));
        health.dialed(TCP, endpoint(), later);
        assert_eq!(suspect_for(&health, later), 1);
        health.failed(TCP, endpoint(), later);
        assert_eq!(suspect_for(&health, later), 20);
    }

    #[test]
    fn a_slow_endpoint_is_avoided_briefly() {
        let mut health = EndpointHealth::default();
        let now = Instant::now();
        health.mark_slow(TCP, endpoint(), now);
        assert_eq!(suspect_for(&health, now), 1);
        health.expire(now + RETENTION * 2);
        assert!(health.0.is_empty());
    }
}
