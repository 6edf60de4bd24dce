//! When the run loop works next. Pure: time comes in as an argument.
//!
//! Neither events nor failures move the periodic comparison, and a repair does not wait for the minimum sync period.

use std::time::{Duration, Instant};

/// The first backoff after a failed sync; each further one doubles it, up to the sync period.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(100);
/// How often to look for what another program has to create first; kube-proxy's interval.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The least time between two repairs: two processes that undo each other's changes must not keep the machine busy.
pub(super) const REPAIR_PAUSE: Duration = Duration::from_millis(200);

/// `syncPeriod` and `minSyncPeriod` of the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods {
    pub(super) sync: Duration,
    pub(super) least: Duration,
}

/// What waits for the next turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    #[default]
    Nothing,
    /// Facts, settings or addresses changed.
    Change,
    /// Another process changed our objects.
    Repair,
}

#[derive(Debug)]
pub(super) struct Schedule {
    /// No change is programmed before this.
    earliest: Instant,
    earliest_repair: Instant,
    /// When the kernel is compared with the plan in any case.
    comparison: Instant,
    /// When a failed sync is repeated, and the backoff after that.
    retry: Option<Instant>,
    backoff: Duration,
}

impl Schedule {
    pub(super) fn new(now: Instant) -> Self {
        Self { earliest: now, earliest_repair: now, comparison: now, retry: None, backoff: FIRST_RETRY }
    }

    /// The time of the next turn, if nothing else happens. A change may be known in advance.
    pub(super) fn next(&self, urgency: Urgency, known: Option<Instant>) -> Instant {
        let retry_or_known = self.retry.or(known.map(|time| time.max(self.earliest)));
        let planned = retry_or_known.map_or(self.comparison, |time| time.min(self.comparison));
        match urgency {
            Urgency::Nothing => planned,
            Urgency::Change => planned.min(self.earliest),
            Urgency::Repair => planned.min(self.earliest_repair),
        }
    }

    pub(super) fn is_comparison_due(&self, now: Instant) -> bool {
        now >= self.comparison
    }

    /// There is no plan yet: the next event makes one.
    pub(super) fn wait_for_facts(&mut self, now: Instant, periods: Periods) {
        self.comparison = now + periods.sync;
    }

    pub(super) fn succeeded(&mut self, now: Instant, periods: Periods, was_compared: bool) {
        (self.retry, self.backoff) = (None, FIRST_RETRY);
        self.earliest = now + periods.least;
        if was_compared {
            self.earliest_repair = now + REPAIR_PAUSE;
            self.comparison = now + periods.sync;
        }
    }

    /// Some objects were compared. The comparison of all objects stays due.
    pub(super) fn repaired(&mut self, now: Instant) {
        self.earliest_repair = now + REPAIR_PAUSE;
    }

    /// A sync has left work for the next one.
    pub(super) fn continue_at(&mut self, now: Instant) {
        self.retry = Some(now);
    }

    /// Nothing can be written until another program has done its part.
    pub(super) fn look_again(&mut self, now: Instant, periods: Periods) {
        self.retry = Some(now + LOOK_AGAIN);
        self.earliest = now + LOOK_AGAIN;
        self.earliest_repair = now + LOOK_AGAIN;
        self.comparison = now + periods.sync.max(LOOK_AGAIN);
    }

    /// Returns the backoff. Events do not shorten the first one: a kernel that refuses must not keep the machine busy.
    pub(super) fn failed(&mut self, now: Instant, periods: Periods) -> Duration {
        let wait = self.backoff.min(periods.sync);
        self.backoff = (self.backoff * 2).min(periods.sync);
        self.retry = Some(now + wait);
        self.earliest = now + periods.least.max(FIRST_RETRY);
        self.earliest_repair = now + REPAIR_PAUSE;
        // The retry reads the whole kernel.
        self.comparison = now + periods.sync;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIODS: Periods = Periods { sync: Duration::from_secs(30), least: Duration::from_secs(1) };

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn changes_do_not_move_the_comparison() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        assert!(schedule.is_comparison_due(start));
        schedule.succeeded(start, PERIODS, true);
        for second in 1..30 {
            let now = start + seconds(second);
            assert_eq!(schedule.next(Urgency::Change, None), now);
            assert!(!schedule.is_comparison_due(now));
            schedule.succeeded(now, PERIODS, false);
        }
        assert_eq!(schedule.next(Urgency::Nothing, None), start + seconds(30));
        assert!(schedule.is_comparison_due(start + seconds(30)));
    }

    #[test]
    fn a_repair_does_not_wait_for_the_minimum_sync_period() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        schedule.succeeded(start, PERIODS, false);
        assert_eq!((schedule.next(Urgency::Change, None), schedule.next(Urgency::Repair, None)), (start, start));
        schedule.succeeded(start, PERIODS, true);
        assert_eq!(schedule.next(Urgency::Change, None), start + seconds(1));
        assert_eq!(schedule.next(Urgency::Repair, None), start + REPAIR_PAUSE);
        schedule.succeeded(start + REPAIR_PAUSE, PERIODS, false);
        assert_eq!(schedule.next(Urgency::Repair, None), start + REPAIR_PAUSE);
        schedule.repaired(start + REPAIR_PAUSE);
        assert_eq!(schedule.next(Urgency::Repair, None), start + REPAIR_PAUSE * 2);
        assert_eq!(schedule.next(Urgency::Nothing, None), start + PERIODS.sync);
    }

    #[test]
    fn a_change_that_is_known_in_advance_comes_in_time() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        schedule.succeeded(start, PERIODS, true);
        let next = |schedule: &Schedule, second| schedule.next(Urgency::Nothing, Some(start + seconds(second)));
        assert_eq!([0, 7, 40].map(|second| next(&schedule, second) - start), [1, 7, 30].map(seconds));
        schedule.failed(start, PERIODS);
        assert_eq!(next(&schedule, 0), start + FIRST_RETRY);
    }

    #[test]
    fn what_is_awaited_is_looked_for_every_second() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now);
        for _ in 0..3 {
            schedule.look_again(now, PERIODS);
            let next = [Urgency::Nothing, Urgency::Change, Urgency::Repair].map(|urgency| schedule.next(urgency, None));
            assert_eq!(next, [now + LOOK_AGAIN; 3]);
        }
        assert_eq!(schedule.failed(now, PERIODS), FIRST_RETRY);
    }

    #[test]
    fn failures_back_off_up_to_the_sync_period() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now);
        let waits: Vec<Duration> = (0..12).map(|_| schedule.failed(now, PERIODS)).collect();
        assert_eq!((waits[0], waits[1], waits[11]), (FIRST_RETRY, FIRST_RETRY * 2, PERIODS.sync));
        assert_eq!(schedule.next(Urgency::Change, None), now + PERIODS.least);
        schedule.succeeded(now, PERIODS, true);
        assert_eq!(schedule.failed(now, PERIODS), FIRST_RETRY);
    }
}
