//! Endpoints that did not answer, remembered so that others need not wait for them, too.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_model::Protocol;

/// After the first failure, and the longest after many. Each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long others keep away while one finds out.
const WHILE_ASKING: Duration = Duration::from_secs(1);

/// A failure counts as a repeated one for so long after it was last avoided.
const MEMORY: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(crate) struct Doubts(HashMap<(Protocol, SocketAddr), Doubt>);

struct Doubt {
    failures: u32,
    /// Until here, further failures are the same one: those of clients who came at the same time.
    settled: Instant,
    /// Until here, it is asked last.
    until: Instant,
}

impl Doubts {
    pub(crate) fn is_doubtful(&self, protocol: Protocol, endpoint: SocketAddr, now: Instant) -> bool {
        // Mostly there are no doubts at all.
        !self.0.is_empty() && self.0.get(&(protocol, endpoint)).is_some_and(|doubt| now < doubt.until)
    }

    /// It is late. Perhaps that is all.
    pub(crate) fn suspect(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) {
        let doubt = self.entry(protocol, endpoint, now);
        doubt.until = doubt.until.max(now + WHILE_ASKING);
    }

    pub(crate) fn failed(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) {
        let doubt = self.entry(protocol, endpoint, now);
        if doubt.failures == 0 || now >= doubt.settled {
            doubt.failures += 1;
            doubt.settled = now + pause(doubt.failures);
        }
        doubt.until = doubt.until.max(doubt.settled);
    }

    pub(crate) fn answered(&mut self, protocol: Protocol, endpoint: SocketAddr) {
        if !self.0.is_empty() {
            self.0.remove(&(protocol, endpoint));
        }
    }

    /// Somebody asks it now. If it was in doubt, nobody else should until the answer is known.
    pub(crate) fn asked(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) {
        if let Some(doubt) = self.0.get_mut(&(protocol, endpoint)) {
            doubt.until = doubt.until.max(now + WHILE_ASKING);
        }
    }

    pub(crate) fn forget_old(&mut self, now: Instant) {
        self.0.retain(|_, doubt| now < doubt.until + MEMORY);
    }

    fn entry(&mut self, protocol: Protocol, endpoint: SocketAddr, now: Instant) -> &mut Doubt {
        self.0.entry((protocol, endpoint)).or_insert(Doubt { failures: 0, settled: now, until: now })
    }
}

fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(8);
    (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: Protocol = Protocol::Tcp;

    fn endpoint() -> SocketAddr {
        "10.0.0.1:80".parse().unwrap()
    }

    /// How many seconds from then it is in doubt.
    fn doubted_for(doubts: &Doubts, now: Instant) -> u64 {
        (0..).find(|second| !doubts.is_doubtful(TCP, endpoint(), now + Duration::from_secs(*second))).unwrap()
    }

    #[test]
    fn doubt_grows_while_it_goes_on_failing_and_ends_with_an_answer() {
        let mut doubts = Doubts::default();
        let mut now = Instant::now();
        for expected in [10, 20, 40, 60, 60] {
            doubts.failed(TCP, endpoint(), now);
            assert_eq!(doubted_for(&doubts, now), expected);
            now += Duration::from_secs(expected);
        }
        doubts.answered(TCP, endpoint());
        doubts.failed(TCP, endpoint(), now);
        assert_eq!(doubted_for(&doubts, now), 10);
        assert!(!doubts.is_doubtful(Protocol::Udp, endpoint(), now), "another protocol is another server");
    }

    #[test]
    fn failures_of_the_same_moment_are_one() {
        let mut doubts = Doubts::default();
        let now = Instant::now();
        (0..30).for_each(|step| doubts.failed(TCP, endpoint(), now + Duration::from_millis(step)));
        assert_eq!(doubted_for(&doubts, now), 10);
    }

    #[test]
    fn one_asks_again_and_the_others_wait_for_what_it_finds() {
        let mut doubts = Doubts::default();
        let now = Instant::now();
        doubts.failed(TCP, endpoint(), now);
        let later = now + FIRST_PAUSE;
        assert!(!doubts.is_doubtful(TCP, endpoint(), later));
        doubts.asked(TCP, endpoint(), later);
        assert_eq!(doubted_for(&doubts, later), 1);
        doubts.failed(TCP, endpoint(), later);
        assert_eq!(doubted_for(&doubts, later), 20);
    }

    #[test]
    fn what_is_only_late_is_avoided_briefly() {
        let mut doubts = Doubts::default();
        let now = Instant::now();
        doubts.suspect(TCP, endpoint(), now);
        assert_eq!(doubted_for(&doubts, now), 1);
        doubts.forget_old(now + MEMORY * 2);
        assert!(doubts.0.is_empty());
    }
}
