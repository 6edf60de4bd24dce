//! The counters of listeners, as the worker writes them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::counters::{Counters, EndpointCounters};

/// The same counters, as the worker writes them.
#[derive(Default, Debug)]
pub(crate) struct EndpointTally {
    pub(crate) connections: Count,
    pub(crate) bytes_from_clients: Count,
    pub(crate) bytes_to_clients: Count,
}

impl EndpointTally {
    fn read(&self) -> EndpointCounters {
        EndpointCounters {
            connections: self.connections.get(),
            bytes_from_clients: self.bytes_from_clients.get(),
            bytes_to_clients: self.bytes_to_clients.get(),
        }
    }
}

/// The counters of a listener, as the worker writes them.
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
    endpoints: Mutex<HashMap<SocketAddr, Arc<EndpointTally>>>,
}

impl Tally {
    pub(crate) fn endpoint(&self, endpoint: SocketAddr) -> Arc<EndpointTally> {
        Arc::clone(self.endpoints().entry(endpoint).or_default())
    }

    /// Forgets endpoints that are no targets any more, once their last connection has ended.
    pub(crate) fn keep_endpoints(&self, is_target: impl Fn(SocketAddr) -> bool) {
        self.endpoints().retain(|endpoint, tally| is_target(*endpoint) || Arc::strong_count(tally) > 1);
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<SocketAddr, Arc<EndpointTally>>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

/// Written by one thread and read by any; relaxed ordering is enough.
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

/// The tallies of all listeners, and of closed ones that still have connections.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    tally: Arc<Tally>,
    is_open: bool,
}

/// Closed listeners whose final counters have not been read.
const MAX_CLOSED: usize = 1024;

impl Ledger {
    /// The tally of a listener. A listener that reopens before its last connection has ended keeps counting.
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

    /// All counters; those of closed listeners until their last connection has ended, and then once more.
    pub(crate) fn read(&self) -> Vec<(String, Counters)> {
        let mut entries = self.entries();
        let figures = entries.iter().map(|(name, entry)| (name.clone(), entry.tally.read())).collect();
        entries.retain(|_, entry| !entry.is_finished());
        figures
    }

    /// The endpoints of all listeners that have had connections.
    pub(crate) fn read_endpoints(&self) -> Vec<(String, SocketAddr, EndpointCounters)> {
        let entries = self.entries();
        let of = |(name, entry): (&String, &Entry)| -> Vec<_> {
            let endpoints = entry.tally.endpoints();
            endpoints.iter().map(|(endpoint, tally)| (name.clone(), *endpoint, tally.read())).collect()
        };
        entries.iter().flat_map(of).collect()
    }

    /// The names of listeners by their tallies.
    pub(crate) fn names(&self) -> HashMap<*const Tally, String> {
        self.entries().iter().map(|(name, entry)| (Arc::as_ptr(&entry.tally), name.clone())).collect()
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
        assert_eq!(ledger.read().len(), 1, "the final counters");
        assert_eq!(ledger.read().len(), 0);
    }

    #[test]
    fn a_reopened_listener_keeps_counting() {
        let ledger = Ledger::default();
        ledger.open("web").connections.add(2);
        ledger.close("web");
        ledger.open("web").connections.add(1);
        assert_eq!(ledger.read()[0].1.connections, 3);
    }
}
