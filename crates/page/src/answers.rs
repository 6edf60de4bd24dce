//! Answers that the process with the facts fills in.

use std::collections::BTreeMap;

use portolan_explain::ChangesAnswer;
use serde::{Deserialize, Serialize};

use crate::rows::Row;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    pub version: String,
    pub kubernetes_version: String,
    /// `daemon`, or `manifests` without one.
    pub source: String,
    /// `API server` or `manifests`.
    pub facts_from: String,
    pub node: String,
    pub zone: Option<String>,
    pub mode: String,
    pub modes: Vec<String>,
    pub started_unix_ms: u64,
    pub now_unix_ms: u64,
    pub health: HealthAnswer,
    pub services: usize,
    pub service_ports: usize,
    pub endpoints: usize,
    pub without_endpoints: usize,
    /// The number of the newest change.
    pub change: u64,
    pub latency_ms: LatencyAnswer,
    pub syncs: SyncsAnswer,
    pub drift: Option<DriftAnswer>,
    pub watches: Vec<WatchAnswer>,
    pub conntrack: Option<ConntrackUse>,
    pub refusals: Vec<RefusalAnswer>,
    pub counters_are_full: bool,
    pub traffic_counted: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HealthAnswer {
    pub is_ready: bool,
    pub is_healthy: bool,
    /// How long the oldest change is pending.
    pub pending_ms: Option<f64>,
    /// Why the last sync failed, while it does.
    pub last_error: Option<String>,
}

/// From event to kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyAnswer {
    pub last: Option<f64>,
    pub median: Option<f64>,
    pub worst: Option<f64>,
    /// Time and latency, the oldest first.
    pub series: Vec<(u64, f64)>,
}

/// Points of the series.
const MOST_POINTS: usize = 120;

impl LatencyAnswer {
    pub fn of(latencies: impl Iterator<Item = (u64, f64)>) -> Self {
        let mut series: Vec<(u64, f64)> = latencies.collect();
        let mut sorted: Vec<f64> = series.iter().map(|(_, latency)| *latency).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied();
        let last = series.last().map(|(_, latency)| *latency);
        series.drain(..series.len().saturating_sub(MOST_POINTS));
        Self { last, median, worst: sorted.last().copied(), series }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncsAnswer {
    pub changes: u64,
    pub failures: u64,
    pub repairs: u64,
    pub repaired_objects: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftAnswer {
    pub unix_ms: u64,
    pub what: String,
    pub process: Option<String>,
    pub repaired: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchAnswer {
    pub what: String,
    pub connected: bool,
    pub since_unix_ms: u64,
    pub panics: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConntrackUse {
    pub entries: u64,
    pub limit: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RefusalAnswer {
    pub reason: String,
    pub words: String,
    pub packets: u64,
    pub per_second: Option<f64>,
}

/// New connections, bytes and packets per second.
pub(crate) type PerSecond = [f64; 3];

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The number of the reading.
    pub reading: u64,
    /// The time that they are about.
    pub seconds: f64,
    /// Services without traffic are left out.
    pub services: BTreeMap<String, PerSecond>,
    /// For each Service that is asked about, its endpoints as `address protocol`.
    pub endpoints: BTreeMap<String, BTreeMap<String, PerSecond>>,
}

/// What streams send.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LiveAnswer {
    pub overview: Overview,
    pub changes: ChangesAnswer,
    /// The Services that changed, as they are now.
    pub rows: Vec<Row>,
    pub removed: Vec<String>,
    /// Too many changed: all Services are to be read again.
    pub reload: bool,
    pub rates: Option<Rates>,
}
