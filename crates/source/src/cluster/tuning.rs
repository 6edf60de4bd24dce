//! How long to wait for what.

use std::time::Duration;

use super::credentials::InCluster;

/// Durations and places that only tests change.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Tuning {
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// For a server that has no such resource.
    pub absent_pause: Duration,
    /// For the beginning of an answer.
    pub answer: Duration,
    /// Without any event while the initial ones arrive.
    pub initial_silence: Duration,
    /// For all initial events.
    pub initial_total: Duration,
    /// The shortest watch that is asked for; the longest is twice that.
    pub watch: Duration,
    /// How much longer than that a watch may stay silent.
    pub grace: Duration,
    /// Without anything from a server that sends a bookmark every minute.
    pub bookmark_silence: Duration,
    /// A watch that ends sooner, without an event, has failed.
    pub settled: Duration,
    pub keepalive: Duration,
    /// How many objects a page of a list holds.
    pub page: u32,
    /// Whether to ask for initial events before trying a list.
    pub streaming: bool,
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
            streaming: true,
            in_cluster: InCluster::from_environment(),
        }
    }
}
