//! What is counted per listener.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How it went so far. All but `active` only grow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Clients that were accepted; for UDP, associations that were made.
    pub connections: u64,
    /// Those of them that have not ended.
    pub active: u64,
    pub bytes_from_clients: u64,
    pub bytes_to_clients: u64,
    /// Further endpoints that were asked because the one before did not answer.
    pub retries: u64,
    /// Endpoints that refused, could not be reached or did not answer in time.
    pub dial_errors: u64,
    /// Clients that were turned away because no endpoint answered.
    pub failed: u64,
    /// How often clients had to wait in the kernel's queue because there were too many connections, and datagrams that
    /// were lost for the same reason.
    pub refused_at_limit: u64,
}

/// The same as the worker writes it.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) connections: Count,
    pub(crate) active: Count,
    pub(crate) bytes_from_clients: Count,
    pub(crate) bytes_to_clients: Count,
    pub(crate) retries: Count,
    pub(crate) dial_errors: Count,
    pub(crate) failed: Count,
    pub(crate) refused_at_limit: Count,
}

impl Tally {
    fn read(&self) -> Counters {
        Counters {
            connections: self.connections.get(),
            active: self.active.get(),
            bytes_from_clients: self.bytes_from_clients.get(),
            bytes_to_clients: self.bytes_to_clients.get(),
            retries: self.retries.get(),
            dial_errors: self.dial_errors.get(),
            failed: self.failed.get(),
            refused_at_limit: self.refused_at_limit.get(),
        }
    }
}

/// Written by one thread and read by any; nothing else hangs on its order.
#[derive(Default, Debug)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn take_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The tallies of all listeners, and of those that are closed and still have connections.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    tally: Arc<Tally>,
    is_open: bool,
}

/// So many closed listeners may wait for somebody to read their last figures.
const MAX_CLOSED: usize = 1024;

impl Ledger {
    /// The tally of a listener. One that comes back before its last connection has ended goes on counting.
    pub(crate) fn open(&self, name: &str) -> Arc<Tally> {
        let mut entries = self.entries();
        let entry = entries.entry(name.to_owned()).or_insert_with(|| Entry { tally: Arc::default(), is_open: true });
        entry.is_open = true;
        Arc::clone(&entry.tally)
    }

    pub(crate) fn close(&self, name: &str) {
        let mut entries = self.entries();
        if entries.values().filter(|entry| entry.is_finished()).count() >= MAX_CLOSED {
            entries.retain(|_, entry| !entry.is_finished());
        }
        if let Some(entry) = entries.get_mut(name) {
            entry.is_open = false;
        }
    }

    /// All figures; those of closed listeners until their last connection has ended, and then once more.
    pub(crate) fn read(&self) -> Vec<(String, Counters)> {
        let mut entries = self.entries();
        let figures = entries.iter().map(|(name, entry)| (name.clone(), entry.tally.read())).collect();
        entries.retain(|_, entry| !entry.is_finished());
        figures
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_finished(&self) -> bool {
        !self.is_open && self.tally.active.get() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_listener_is_reported_until_its_last_connection_has_ended() {
        let ledger = Ledger::default();
        let tally = ledger.open("web");
        tally.active.add(1);
        ledger.close("web");
        assert_eq!(ledger.read().len(), 1);
        tally.active.take_one();
        assert_eq!(ledger.read().len(), 1, "its last figures");
        assert_eq!(ledger.read().len(), 0);
    }

    #[test]
    fn a_listener_that_comes_back_goes_on_counting() {
        let ledger = Ledger::default();
        ledger.open("web").connections.add(2);
        ledger.close("web");
        ledger.open("web").connections.add(1);
        assert_eq!(ledger.read()[0].1.connections, 3);
    }
}
