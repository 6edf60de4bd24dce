//! Query metrics, under CoreDNS's names where the meaning is the same.
//!
//! Each thread has its own counters, so that counting does not contend; the page sums them up.

mod counts;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use counts::{Counts, Histogram, KINDS, RCODES, Request, SIZES, ZoneKind, count};

/// The counters of all threads.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    threads: Mutex<Vec<Arc<Counts>>>,
    pub(crate) cache_hits: AtomicU64,
    pub(crate) cache_misses: AtomicU64,
    pub(crate) served_stale: AtomicU64,
    pub(crate) autopath: AtomicU64,
    pub(crate) limited: AtomicU64,
    /// Queries refused because too many wait for an upstream: in total, or of their client.
    pub(crate) rejected: AtomicU64,
    pub(crate) over_share: AtomicU64,
    /// Queries dropped unread because a thread was behind.
    pub(crate) shed: AtomicU64,
    pub(crate) evicted_connections: Arc<AtomicU64>,
    pub(crate) failed_reloads: AtomicU64,
    pub(crate) panics: AtomicU64,
}

impl Metrics {
    /// The counters of one thread.
    pub(crate) fn counts(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(counts.clone());
        counts
    }

    pub(crate) fn threads(&self) -> Vec<Arc<Counts>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
