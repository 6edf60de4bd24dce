//! The rate of requests, and the backoff after a failure.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// A token bucket: `burst` requests at once, `qps` per second in the long run.
#[derive(Debug)]
pub(super) struct Throttle {
    interval: Duration,
    /// How much earlier than its turn a request may be sent.
    slack: Duration,
    turn: Mutex<Option<Instant>>,
}

impl Throttle {
    /// A rate of 0 means no limit.
    pub(super) fn new(qps: f32, burst: u32) -> Self {
        let interval = if qps > 0.0 { Duration::from_secs_f32(1.0 / qps) } else { Duration::ZERO };
        Self { interval, slack: interval * burst.saturating_sub(1), turn: Mutex::new(None) }
    }

    /// Waits for the turn of one request.
    pub(super) async fn take(&self) {
        let start = {
            let mut turn = self.turn.lock().await;
            let now = Instant::now();
            let mine = turn.map_or(now, |turn| turn.max(now));
            *turn = Some(mine + self.interval);
            mine.checked_sub(self.slack).filter(|start| *start > now)
        };
        if let Some(start) = start {
            tokio::time::sleep_until(start).await;
        }
    }

    /// Takes a token if one is available.
    pub(super) async fn try_take(&self) -> bool {
        let mut turn = self.turn.lock().await;
        let now = Instant::now();
        let mine = turn.map_or(now, |turn| turn.max(now));
        let is_free = mine <= now + self.slack;
        if is_free {
            *turn = Some(mine + self.interval);
        }
        is_free
    }
}

/// Exponential backoff with jitter, so that the nodes of a cluster do not reconnect all at once.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }

    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(1.0 + random());
        self.next = (self.next * 2).min(self.longest);
        pause.min(self.longest)
    }
}

/// A random number from 0 to 1.
pub(super) fn random() -> f64 {
    let number = RandomState::new().hash_one(0_u8);
    (number >> 11) as f64 / (1_u64 << 53) as f64
}
