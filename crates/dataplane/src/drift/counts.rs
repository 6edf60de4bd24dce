//! Foreign changes where the kernel sends no notifications: the numbers of objects are compared with those that our writes
//! lead to.
//!
//! The thread that writes and the one that watches share a [`Ledger`]. It is locked during a write and during a look, so
//! that a look never sees half of a write, and a difference is always foreign.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use portolan_kernel::thread_cpu_time;

use super::{ComparedState, ForeignChange, WATCH_INTERVAL};
use crate::Error;

/// Looks take at most this part of a processor, however many objects there are.
const LARGEST_SHARE: u32 = 20;

/// Numbers of objects, by where they are.
pub(crate) type Counts = BTreeMap<String, i64>;

/// The counts that the kernel should show.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Expected>>);

#[derive(Default)]
struct Expected {
    /// `None` between a failed write and the next read.
    counts: Option<Counts>,
    /// Reads of the kernel so far.
    reads: u32,
    compared: ComparedState,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Expected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts before the kernel is read as a whole: a foreign change in between then shows as a difference. The watch does not
    /// look meanwhile.
    pub(crate) fn begin_read(&self, count: impl FnOnce() -> Result<Counts, Error>) -> Result<(), Error> {
        let mut expected = self.lock();
        expected.counts = Some(count()?);
        expected.reads = expected.reads.wrapping_add(1);
        expected.compared.set(expected.reads);
        Ok(())
    }

    /// Keeps the watch from looking until the write is over. Without [`Writing::finish`] nothing is expected any more.
    pub(crate) fn begin_write(&self) -> Writing<'_> {
        let mut expected = self.lock();
        let before = expected.counts.take();
        Writing { expected, before }
    }
}

pub(crate) struct Writing<'a> {
    expected: MutexGuard<'a, Expected>,
    before: Option<Counts>,
}

impl Writing<'_> {
    /// The write has succeeded, and changed the counts by this much.
    pub(crate) fn finish(mut self, changes: impl IntoIterator<Item = (String, i64)>) {
        let Some(mut counts) = self.before.take() else { return };
        for (what, change) in changes {
            *counts.entry(what).or_default() += change;
        }
        self.expected.counts = Some(counts);
    }
}

/// Looks at the kernel's counts now and then.
pub(crate) struct CountWatch<L> {
    ledger: Ledger,
    look: L,
    next: Instant,
    /// The difference that was reported, and after which read: it is reported once.
    reported: Option<(u32, Counts)>,
}

impl<L: FnMut() -> Result<Counts, Error>> CountWatch<L> {
    pub(crate) fn new(ledger: Ledger, look: L) -> Self {
        Self { ledger, look, next: Instant::now(), reported: None }
    }

    /// Looks if it is time. Returns what differs.
    pub(crate) fn check(&mut self) -> Result<Option<ForeignChange>, Error> {
        let begin = Instant::now();
        if begin < self.next {
            return Ok(None);
        }
        // A look waits for the end of a write, and for other programs on a busy machine: the time of the clock would make the
        // next one late.
        let used = thread_cpu_time();
        let found = self.compare();
        let cost = thread_cpu_time().saturating_sub(used);
        self.next = begin + (cost * LARGEST_SHARE).max(WATCH_INTERVAL);
        found
    }

    fn compare(&mut self) -> Result<Option<ForeignChange>, Error> {
        let expected = self.ledger.lock();
        let Some(wanted) = &expected.counts else { return Ok(None) };
        let found = (self.look)()?;
        let differences = differences(wanted, &found);
        let Some((what, difference)) = differences.first_key_value() else { return Ok(None) };
        let text = describe(what, *difference, &found);
        let report = Some((expected.reads, differences));
        let is_new = self.reported != report;
        self.reported = report;
        let change = ForeignChange::new(text, expected.reads.wrapping_add(1), expected.compared.clone());
        Ok(is_new.then_some(change))
    }
}

/// By how much the counts differ. Our own writes change both counts, and no difference.
fn differences(wanted: &Counts, found: &Counts) -> Counts {
    let mut differences = found.clone();
    for (what, count) in wanted {
        *differences.entry(what.clone()).or_default() -= count;
    }
    differences.retain(|_, difference| *difference != 0);
    differences
}

fn describe(what: &str, difference: i64, found: &Counts) -> String {
    let count = found.get(what).copied().unwrap_or(0);
    format!("another process changed {what}: {count} objects, expected {}", count - difference)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;

    fn counts(number: i64) -> Counts {
        [("table ip nat".to_owned(), number)].into()
    }

    #[test]
    fn only_foreign_changes_differ_and_each_is_reported_once() {
        let (ledger, kernel) = (Ledger::default(), Rc::new(RefCell::new(counts(5))));
        let seen = kernel.clone();
        let mut watch = CountWatch::new(ledger.clone(), move || Ok(seen.borrow().clone()));
        let mut look = || watch.compare().unwrap();
        assert!(look().is_none(), "nothing is expected before the first read");
        ledger.begin_read(|| Ok(counts(5))).unwrap();
        let writing = ledger.begin_write();
        *kernel.borrow_mut() = counts(8);
        writing.finish([("table ip nat".to_owned(), 3)]);
        assert!(look().is_none());
        *kernel.borrow_mut() = counts(2);
        let text = "another process changed table ip nat: 2 objects, expected 8";
        let first = look().unwrap();
        assert_eq!(first.to_string(), text);
        assert!(look().is_none());
        // An own write in between is the same difference.
        ledger.begin_write().finish([("table ip nat".to_owned(), 1)]);
        *kernel.borrow_mut() = counts(3);
        assert!(look().is_none());
        assert!(!first.is_compared());
        // Repaired, and damaged in the same way before the next look.
        ledger.begin_read(|| Ok(counts(2))).unwrap();
        assert!(first.is_compared());
        ledger.begin_write().finish([("table ip nat".to_owned(), 6)]);
        *kernel.borrow_mut() = counts(2);
        let second = look().unwrap();
        assert_eq!((second.to_string(), second.is_compared()), (text.to_owned(), false));
        drop(ledger.begin_write());
        assert!(look().is_none(), "after a failed write the next sync reads anyway");
    }

    #[test]
    fn a_slow_look_is_repeated_seldom() {
        let ledger = Ledger::default();
        ledger.begin_read(|| Ok(counts(1))).unwrap();
        let mut watch = CountWatch::new(ledger, || {
            let begin = thread_cpu_time();
            while thread_cpu_time() - begin < Duration::from_millis(30) {}
            Ok(counts(1))
        });
        let begin = Instant::now();
        watch.check().unwrap();
        assert!(watch.next > begin + WATCH_INTERVAL * 2);
    }

    #[test]
    fn a_look_that_waits_for_a_write_is_soon_repeated() {
        let ledger = Ledger::default();
        ledger.begin_read(|| Ok(counts(1))).unwrap();
        let mut watch = CountWatch::new(ledger.clone(), || Ok(counts(1)));
        let writing = ledger.begin_write();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let look = scope.spawn(|| watch.check().unwrap());
            std::thread::sleep(Duration::from_millis(100));
            writing.finish([]);
            assert!(look.join().unwrap().is_none());
        });
        assert!(watch.next < begin + Duration::from_millis(100) * LARGEST_SHARE);
    }
}
