//! Timers. A timer for something that is gone has no effect; a long one is cancelled, so that it takes no memory.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::slots::Key;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Alarm {
    /// A dial is slow.
    Stalled(Key),
    /// A dial has timed out.
    TimedOut(Key),
    /// An association may be idle.
    Idle(Key),
    /// The grace period of a closed listener is over.
    Closed(Key),
    /// There may be free descriptors again.
    Retry,
    /// Remove expired entries.
    Sweep,
}

pub(crate) struct Timers(BTreeSet<(Instant, Alarm)>);

impl Timers {
    pub(crate) fn new() -> Self {
        Timers(BTreeSet::new())
    }

    pub(crate) fn set(&mut self, at: Instant, alarm: Alarm) {
        self.0.insert((at, alarm));
    }

    pub(crate) fn cancel(&mut self, at: Instant, alarm: Alarm) {
        self.0.remove(&(at, alarm));
    }

    /// The time until the next timer.
    pub(crate) fn next_in(&self, now: Instant) -> Option<Duration> {
        self.0.first().map(|(at, _)| at.saturating_duration_since(now))
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Alarm> {
        let is_due = self.0.first().is_some_and(|(at, _)| *at <= now);
        if is_due { self.0.pop_first().map(|(_, alarm)| alarm) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_come_in_order_and_not_before_their_time() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut timers = Timers::new();
        timers.set(later(2), Alarm::Sweep);
        timers.set(later(1), Alarm::Retry);
        assert_eq!(timers.take_due(start), None);
        assert_eq!(timers.next_in(start), Some(Duration::from_secs(1)));
        timers.set(later(2), Alarm::Sweep);
        assert_eq!([(); 3].map(|()| timers.take_due(later(2))), [Some(Alarm::Retry), Some(Alarm::Sweep), None]);
        timers.set(later(3), Alarm::Retry);
        timers.cancel(later(3), Alarm::Retry);
        assert_eq!(timers.next_in(start), None);
    }
}
