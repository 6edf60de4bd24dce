//! Notices foreign changes, also where the kernel sends no notifications: the numbers of objects are compared with those that our writes
//! lead to.
//!
//! The thread that writes and the one that watches share a [`Ledger`]. It is locked during a write and during a look, so
//! that a look never sees half of a write, and a difference is always foreign.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;

/// How long one wait of a watch lasts, and the time between two looks.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// Looks take at most this part of the time, however many objects there are.
const LARGEST_SHARE: u32 = 20;

/// Waits for changes that another process makes to a mode's objects.
pub trait WatchForeignChanges: Send {
    /// Returns what changed, or `None` after a fraction of a second: the watch ends with its mode.
    fn wait(&mut self) -> Result<Option<String>, Error>;
}

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
    reads: u64,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Expected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is read as a whole. Count before reading: a foreign change in between then shows as a difference.
    pub(crate) fn note_read(&self, counts: Counts) {
        let mut expected = self.lock();
        expected.counts = Some(counts);
        expected.reads += 1;
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
    reported: Option<(u64, Counts)>,
}

impl<L: FnMut() -> Result<Counts, Error>> CountWatch<L> {
    pub(crate) fn new(ledger: Ledger, look: L) -> Self {
        Self { ledger, look, next: Instant::now(), reported: None }
    }

    /// Looks if it is time. Returns what differs.
    pub(crate) fn check(&mut self) -> Result<Option<String>, Error> {
        let begin = Instant::now();
        if begin < self.next {
            return Ok(None);
        }
        let found = self.compare();
        self.next = begin + (begin.elapsed() * LARGEST_SHARE).max(WATCH_INTERVAL);
        found
    }

    fn compare(&mut self) -> Result<Option<String>, Error> {
        let expected = self.ledger.lock();
        let Some(wanted) = &expected.counts else { return Ok(None) };
        let found = (self.look)()?;
        let Some(difference) = difference(wanted, &found) else { return Ok(None) };
        let report = Some((expected.reads, found));
        let is_new = self.reported != report;
        self.reported = report;
        Ok(is_new.then_some(difference))
    }
}

/// The first count that differs; a missing one is zero.
fn difference(wanted: &Counts, found: &Counts) -> Option<String> {
    let of = |counts: &Counts, what: &str| counts.get(what).copied().unwrap_or(0);
    let what = wanted.keys().chain(found.keys()).find(|what| of(wanted, what) != of(found, what))?;
    Some(format!("another process changed {what}: {} objects, expected {}", of(found, what), of(wanted, what)))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn counts(number: i64) -> Counts {
        [("table ip nat".to_owned(), number)].into()
    }

    #[test]
    fn only_foreign_changes_differ_and_each_is_reported_once() {
        let (ledger, kernel) = (Ledger::default(), Rc::new(RefCell::new(counts(5))));
        let seen = kernel.clone();
        let mut watch = CountWatch::new(ledger.clone(), move || Ok(seen.borrow().clone()));
        assert_eq!(watch.compare().unwrap(), None, "nothing is expected before the first read");
        ledger.note_read(counts(5));
        let writing = ledger.begin_write();
        *kernel.borrow_mut() = counts(8);
        writing.finish([("table ip nat".to_owned(), 3)]);
        assert_eq!(watch.compare().unwrap(), None);
        *kernel.borrow_mut() = counts(2);
        let text = "another process changed table ip nat: 2 objects, expected 8";
        assert_eq!(watch.compare().unwrap().as_deref(), Some(text));
        assert_eq!(watch.compare().unwrap(), None);
        // Repaired, and damaged in the same way before the next look.
        ledger.note_read(counts(2));
        ledger.begin_write().finish([("table ip nat".to_owned(), 6)]);
        assert_eq!(watch.compare().unwrap().as_deref(), Some(text));
        drop(ledger.begin_write());
        assert_eq!(watch.compare().unwrap(), None, "after a failed write the next sync reads anyway");
    }

    #[test]
    fn a_slow_look_is_repeated_seldom() {
        let ledger = Ledger::default();
        ledger.note_read(counts(1));
        let mut watch = CountWatch::new(ledger, || {
            std::thread::sleep(Duration::from_millis(30));
            Ok(counts(1))
        });
        watch.check().unwrap();
        assert!(watch.next > Instant::now() + WATCH_INTERVAL);
    }
}
