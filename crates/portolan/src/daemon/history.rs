//! The last changes, in bounded memory, for the commands and the page.

use std::collections::VecDeque;
use std::sync::Arc;

use portolan_explain::{ChangeEntry, ChangeKind, ChangesAnswer, Drift};

/// Changes that are kept.
const MOST_CHANGES: usize = 1_000;
/// The memory that they take, roughly.
const MOST_BYTES: usize = 2 << 20;

#[derive(Debug, Default)]
pub(crate) struct History {
    entries: VecDeque<Arc<ChangeEntry>>,
    bytes: usize,
    newest: u64,
    tally: Tally,
    last_drift: Option<(u64, Drift)>,
    last_error: Option<String>,
}

/// How many of each kind there were since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) changes: u64,
    pub(crate) failures: u64,
    pub(crate) repairs: u64,
    pub(crate) repaired_objects: u64,
}

impl History {
    /// Gives it the next number.
    pub(crate) fn add(&mut self, mut entry: ChangeEntry) {
        self.newest += 1;
        entry.number = self.newest;
        self.note(&entry);
        self.bytes += entry.size();
        self.entries.push_back(Arc::new(entry));
        while self.entries.len() > MOST_CHANGES || self.bytes > MOST_BYTES && self.entries.len() > 1 {
            let oldest = self.entries.pop_front();
            self.bytes -= oldest.map_or(0, |entry| entry.size());
        }
    }

    fn note(&mut self, entry: &ChangeEntry) {
        match entry.kind {
            ChangeKind::Failure => self.tally.failures += 1,
            _ => self.tally.changes += 1,
        }
        if let Some(drift) = &entry.drift {
            self.tally.repairs += 1;
            self.tally.repaired_objects += drift.repaired as u64;
            self.last_drift = Some((entry.unix_ms, drift.clone()));
        }
    }

    /// A sync failed. Returns whether that is news.
    pub(crate) fn fail(&mut self, error: &str) -> bool {
        self.last_error.replace(error.to_owned()).is_none_or(|last| last != error)
    }

    /// A sync succeeded.
    pub(crate) fn succeed(&mut self) {
        self.last_error = None;
    }

    /// The changes after one of that number, of these the newest.
    pub(crate) fn after(&self, after: u64, most: usize) -> ChangesAnswer {
        // Numbers restart with the daemon.
        let after = if after > self.newest { 0 } else { after };
        let oldest = self.entries.front().map_or(0, |entry| entry.number);
        let wanted = self.newest.saturating_sub(after);
        let kept = usize::try_from(wanted).unwrap_or(usize::MAX).min(self.entries.len()).min(most);
        let changes = self.entries.iter().skip(self.entries.len() - kept).map(|entry| (**entry).clone()).collect();
        ChangesAnswer { newest: self.newest, oldest, is_complete: kept as u64 == wanted, changes }
    }

    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    pub(crate) fn last_drift(&self) -> Option<&(u64, Drift)> {
        self.last_drift.as_ref()
    }

    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Time and latency of the changes that wrote something, the oldest first.
    pub(crate) fn latencies(&self) -> impl Iterator<Item = (u64, f64)> {
        let written = self.entries.iter().filter(|entry| entry.objects > 0);
        written.filter_map(|entry| Some((entry.unix_ms, entry.latency_ms?)))
    }
}

#[cfg(test)]
mod tests {
    use portolan_explain::Cause;

    use super::*;

    fn numbers(answer: &ChangesAnswer) -> Vec<u64> {
        answer.changes.iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn the_newest_are_kept() {
        let mut history = History::default();
        assert_eq!((history.after(0, 10).newest, history.after(0, 10).is_complete), (0, true));
        for _ in 0..MOST_CHANGES + 5 {
            history.add(ChangeEntry::default());
        }
        let all = history.after(0, usize::MAX);
        assert_eq!((all.changes.len(), all.oldest, all.newest, all.is_complete), (MOST_CHANGES, 6, 1_005, false));
        assert_eq!(numbers(&history.after(1_003, 10)), [1_004, 1_005]);
        assert!(history.after(1_003, 10).is_complete && !history.after(1_000, 2).is_complete);
        assert_eq!(numbers(&history.after(1_000, 2)), [1_004, 1_005]);
        assert_eq!(numbers(&history.after(1_005, 10)), [0; 0]);
        assert_eq!(history.after(2_000, 3).changes.len(), 3, "an earlier daemon had more");
    }

    #[test]
    fn large_changes_take_bounded_memory() {
        let mut history = History::default();
        let large =
            || ChangeEntry { causes: vec![Cause::new("Service", "a/b", "x".repeat(400)); 20], ..Default::default() };
        for _ in 0..MOST_CHANGES {
            history.add(large());
        }
        assert!(history.bytes <= MOST_BYTES && history.entries.len() > 100);
        assert_eq!(history.bytes, history.entries.iter().map(|entry| entry.size()).sum::<usize>());
    }

    #[test]
    fn a_failure_that_repeats_is_noted_once() {
        let mut history = History::default();
        assert_eq!(["a", "a", "b", "b"].map(|error| history.fail(error)), [true, false, true, false]);
        history.succeed();
        assert!(history.fail("b"));
    }
}
