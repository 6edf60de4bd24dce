//! Timeouts and backoff.

use std::time::Duration;

use super::credentials::InCluster;

/// Settings that only tests change.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Tuning {
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// The retry interval for a resource that the server does not have.
    pub absent_pause: Duration,
    /// Until the response headers.
    pub answer: Duration,
    /// Between two initial events.
    pub initial_silence: Duration,
    /// For all initial events together.
    pub initial_total: Duration,
    /// The shortest duration of a watch; the longest is twice that.
    pub watch: Duration,
    /// How much longer than its duration a watch may stay silent.
    pub grace: Duration,
    /// Between two messages of a server that sends a bookmark every minute.
    pub bookmark_silence: Duration,
    /// A watch that ends sooner without an event has failed.
    pub settled: Duration,
    pub keepalive: Duration,
    /// Objects per page of a list.
    pub page: u32,
    /// Bytes of one page of a list. A server that ignores the size of a page sends all objects at once.
    pub longest_list: usize,
    /// Whether to request initial events before a list.
    pub streaming: bool,
    /// For a credential plugin.
    pub plugin: Duration,
    pub in_cluster: InCluster,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(800),
            longest_pause: Duration::from_secs(30),
            absent_pause: Duration::from_secs(300),
            answer: Duration::from_secs(60),
            initial_silence: Duration::from_secs(10),
            initial_total: Duration::from_secs(120),
            watch: Duration::from_secs(300),
            grace: Duration::from_secs(30),
            bookmark_silence: Duration::from_secs(180),
            settled: Duration::from_secs(1),
            keepalive: Duration::from_secs(15),
            page: 500,
            longest_list: 512 << 20,
            streaming: true,
            plugin: Duration::from_secs(60),
            in_cluster: InCluster::from_environment(),
        }
    }
}
