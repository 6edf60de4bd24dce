//! Rate limit per client. Its memory does not depend on the number of clients.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Clients whose addresses hash into the same slot share its tokens; the hash is keyed, so that clients cannot choose
/// their slot.
const SLOTS: usize = 1 << 14;

/// A token bucket for each client, filled at a steady rate: each query takes one token.
#[derive(Debug)]
pub struct RateLimit {
    per_second: u64,
    start: Instant,
    hasher: RandomState,
    /// When the bucket is full again, in nanoseconds since the start.
    slots: Box<[AtomicU64]>,
}

/// The burst: as many queries as the rate allows in this time.
const BURST: Duration = Duration::from_secs(1);

impl RateLimit {
    pub fn new(per_second: u32, start: Instant) -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { per_second: per_second.max(1).into(), start, hasher: RandomState::new(), slots }
    }

    /// Whether one more query is allowed.
    pub fn allows(&self, client: IpAddr, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.start).as_nanos() as u64;
        let cost = 1_000_000_000 / self.per_second;
        let slot = &self.slots[self.hasher.hash_one(client) as usize % SLOTS];
        let taken = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            let full_at = full_at.max(now) + cost;
            (full_at <= now + BURST.as_nanos() as u64).then_some(full_at)
        });
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_stopped_and_others_are_not() {
        let start = Instant::now();
        let limit = RateLimit::new(10, start);
        let (flood, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let allowed = (0..1000).filter(|_| limit.allows(flood, start)).count();
        assert_eq!(allowed, 10);
        assert!(limit.allows(other, start));
        assert!(!limit.allows(flood, start + Duration::from_millis(99)));
        assert!(limit.allows(flood, start + Duration::from_millis(100)));
        let later = start + Duration::from_secs(100);
        assert_eq!((0..1000).filter(|_| limit.allows(flood, later)).count(), 10);
    }
}
