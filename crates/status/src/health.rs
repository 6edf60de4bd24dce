//! Health: whether the kernel keeps up with the cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use portolan_model::Family;
use serde::Serialize;

use crate::clock::{Clock, Moment};

const NOT_READY: &str = "the first sync has not finished";

/// The health of the daemon, updated by the daemon and read by the servers. Clones share it.
#[derive(Clone)]
pub struct Health {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    families: BTreeMap<Family, FamilyState>,
    node_eligible: bool,
    /// Since when a watch is down after a crash, so that changes do not arrive.
    down: Option<Moment>,
    /// A change that is pending longer than this means unhealthy, and so does a watch that is down.
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct FamilyState {
    updated: Option<Moment>,
    /// When the oldest pending change arrived.
    queued: Option<Moment>,
}

impl Health {
    pub fn new(timeout: Duration, clock: Clock) -> Self {
        let state = State { families: BTreeMap::new(), node_eligible: true, down: None, timeout };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// A change needs a sync. Only the oldest pending change counts.
    pub fn queued(&self, family: Family) {
        let now = self.clock.now();
        self.state().families.entry(family).or_default().queued.get_or_insert(now);
    }

    /// All pending changes are in the kernel.
    pub fn synced(&self, family: Family) {
        let state = FamilyState { updated: Some(self.clock.now()), queued: None };
        self.state().families.insert(family, state);
    }

    /// Whether load balancers should use this node: it exists and is not being removed.
    pub fn set_node_eligible(&self, node_eligible: bool) {
        self.state().node_eligible = node_eligible;
    }

    /// Whether all watches work. An API server that cannot be reached is no reason: the last state stays in force.
    pub fn set_watching(&self, is_watching: bool) {
        let now = self.clock.now();
        let mut state = self.state();
        state.down = if is_watching { None } else { state.down.or(Some(now)) };
    }

    pub fn set_timeout(&self, timeout: Duration) {
        self.state().timeout = timeout;
    }

    /// Whether no change is pending too long. Before the first sync the node is healthy.
    pub fn is_healthy(&self) -> bool {
        let now = self.clock.now();
        let state = self.state();
        state.is_watching(now) && state.families.values().all(|family| family.is_in_time(now, state.timeout))
    }

    /// How long the oldest change is pending.
    pub fn pending(&self) -> Option<Duration> {
        let now = self.clock.now();
        let waits = |family: &FamilyState| Some(now.since_start.saturating_sub(family.queued?.since_start));
        self.state().families.values().filter_map(waits).max()
    }

    /// Whether the first sync has completed.
    pub fn is_ready(&self) -> bool {
        self.state().is_ready()
    }

    /// The response of `/healthz`: whether to send traffic to this node.
    pub(crate) fn healthz(&self) -> Answer {
        let (node_eligible, is_ready) = {
            let state = self.state();
            (state.node_eligible, state.is_ready())
        };
        let mut answer = self.answer(|healthy| healthy && node_eligible && is_ready);
        answer.report.node_eligible = Some(node_eligible);
        answer.report.reason = (!is_ready).then_some(NOT_READY);
        answer
    }

    /// The response of `/livez`: whether a restart might help.
    pub(crate) fn livez(&self) -> Answer {
        self.answer(|healthy| healthy)
    }

    fn answer(&self, is_good: impl Fn(bool) -> bool) -> Answer {
        let now = self.clock.now();
        let status = self.statuses(now);
        let healthy = self.state().is_watching(now) && status.values().all(|status| status.healthy);
        let is_good = is_good(healthy);
        let last = status.values().map(|status| status.last_updated.0).max().unwrap_or(Timestamp::MIN);
        // As in kube-proxy: older clients evaluate the age of this field alone.
        let last_updated = Time(if is_good { now.wall } else { last });
        let current_time = Time(now.wall);
        Answer {
            is_good,
            report: Report { last_updated, current_time, node_eligible: None, healthy, reason: None, status },
        }
    }

    /// Of the families that have been synced at least once.
    fn statuses(&self, now: Moment) -> BTreeMap<&'static str, FamilyReport> {
        let state = self.state();
        let timeout = state.timeout;
        let report = |(family, state): (&Family, &FamilyState)| {
            let last_updated = Time(state.updated?.wall);
            let name = if *family == Family::V4 { "IPv4" } else { "IPv6" };
            Some((name, FamilyReport { last_updated, healthy: state.is_in_time(now, timeout) }))
        };
        state.families.iter().filter_map(report).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }
}

impl FamilyState {
    fn is_in_time(&self, now: Moment, timeout: Duration) -> bool {
        let waits = self.queued.map(|queued| now.since_start.saturating_sub(queued.since_start));
        self.updated.is_none() || waits.is_none_or(|waits| waits < timeout)
    }
}

impl State {
    fn is_watching(&self, now: Moment) -> bool {
        self.down.is_none_or(|down| now.since_start.saturating_sub(down.since_start) < self.timeout)
    }

    fn is_ready(&self) -> bool {
        !self.families.is_empty() && self.families.values().all(|family| family.updated.is_some())
    }
}

pub(crate) struct Answer {
    pub(crate) is_good: bool,
    pub(crate) report: Report,
}

/// The fields and their order are those of kube-proxy; `reason` is added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    last_updated: Time,
    current_time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_eligible: Option<bool>,
    /// Covers programming alone; the node may still be in removal.
    healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    status: BTreeMap<&'static str, FamilyReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FamilyReport {
    last_updated: Time,
    healthy: bool,
}

/// A missing time is the first moment of year 1, as in JSON that Go encodes.
#[derive(Clone, Copy, Debug)]
struct Time(Timestamp);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_never = self.0 == Timestamp::MIN;
        if is_never { serializer.serialize_str("0001-01-01T00:00:00Z") } else { serializer.collect_str(&self.0) }
    }
}
