//! One upstream server and its health, and the metrics of all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::config::ForwardConfig;
use super::exchange::Exchange;
use crate::cache::Key;
use crate::metrics::Histogram;
use crate::wire::{Name, Reply, kind};

/// The interval between probes of an upstream that is down.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    /// Use TCP from the start, for probes, too: the server may not answer over UDP at all.
    pub(crate) force_tcp: bool,
    /// Consecutive failures.
    failures: AtomicU32,
    pub(crate) failed_probes: AtomicU64,
}

impl Upstream {
    pub(crate) fn new(address: SocketAddr, force_tcp: bool) -> Self {
        Self { address, force_tcp, failures: AtomicU32::new(0), failed_probes: AtomicU64::new(0) }
    }

    pub(crate) fn is_down(&self, max_fails: u32) -> bool {
        max_fails > 0 && self.failures.load(Ordering::Relaxed) >= max_fails
    }

    pub(crate) fn answered(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Returns the number of consecutive failures.
    pub(crate) fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Any answer to a query for the root is a success. A successful client query ends the probes, too.
    pub(crate) async fn probe_until_up(self: Arc<Self>, config: ForwardConfig) {
        let key = Key { name: Name::ROOT, kind: kind::NS, wants_dnssec: false, unchecked: false };
        let tcp = Semaphore::new(1);
        while self.is_down(config.max_fails) {
            tokio::time::sleep(PROBE_INTERVAL).await;
            let Self { address, force_tcp, .. } = *self;
            let probe = Exchange { server: address, key: &key, force_tcp, config: &config, tcp: &tcp };
            match probe.run().await {
                Ok(_) => self.answered(),
                Err(_) => _ = self.failed_probes.fetch_add(1, Ordering::Relaxed),
            }
        }
        tracing::info!("upstream DNS server {} answers again", self.address);
    }
}

/// Metrics of the upstreams.
#[derive(Debug, Default)]
pub(crate) struct ForwardCounts {
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
