//! Query metrics, under CoreDNS's names where the meaning is the same.
//!
//! Each thread has its own counters, so that counting does not contend; the page sums them up.

mod counts;
mod page;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::forward::Upstream;
use crate::wire::Reply;

pub(crate) use counts::{Counts, Histogram, Request, ZoneKind};
pub(crate) use page::page;

/// The counters of all threads.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    threads: Mutex<Vec<Arc<Counts>>>,
    pub(crate) cache_hits: AtomicU64,
    pub(crate) cache_misses: AtomicU64,
    pub(crate) served_stale: AtomicU64,
    pub(crate) autopath: AtomicU64,
    pub(crate) limited: AtomicU64,
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

/// Increments a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Metrics of the upstreams.
#[derive(Debug, Default)]
pub(crate) struct ForwardCounts {
    pub(crate) rejected: AtomicU64,
    pub(crate) durations: Mutex<BTreeMap<(String, String), Histogram>>,
}

impl ForwardCounts {
    pub(crate) fn observe(&self, upstream: &Upstream, reply: Option<&Reply>, time: Duration) {
        let rcode = reply.map_or("SERVFAIL", |reply| reply.rcode().name());
        let key = (upstream.address.to_string(), rcode.to_owned());
        let mut durations = self.durations.lock().unwrap_or_else(PoisonError::into_inner);
        durations.entry(key).or_default().observe_time(time);
    }
}
