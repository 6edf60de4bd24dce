//! What the watches report beside the snapshot.

use std::time::{Instant, SystemTime};

use portolan_model::Family;

/// This Node, as the API server has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// Not yet listed.
    #[default]
    Unknown,
    Absent,
    Present {
        deleting: bool,
        /// The cluster autoscaler is about to remove the machine.
        to_be_deleted_taint: bool,
    },
}

/// The changes since they were last taken.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// How many Services were added, changed or removed.
    pub services: u64,
    /// How many slices were.
    pub endpoints: u64,
    /// When the first of these changes arrived.
    pub oldest: Option<Instant>,
    /// When their causes happened, by the annotation of the slices.
    pub triggers: Vec<(Family, SystemTime)>,
}

impl Changes {
    /// Trigger times feed a histogram; a burst must not take much memory.
    const MOST_TRIGGERS: usize = 10_000;

    pub(super) fn service(&mut self, now: Instant) {
        self.services += 1;
        self.oldest.get_or_insert(now);
    }

    pub(super) fn slice(&mut self, now: Instant, trigger: Option<(Family, SystemTime)>) {
        self.endpoints += 1;
        self.oldest.get_or_insert(now);
        let trigger = trigger.filter(|_| self.triggers.len() < Self::MOST_TRIGGERS);
        self.triggers.extend(trigger);
    }
}

/// The state of one watch.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// `Services`, `EndpointSlices`, `Node` or `ServiceCIDRs`.
    pub what: &'static str,
    pub connected: bool,
    /// When it last connected or disconnected.
    pub since: SystemTime,
    /// Whether the resource has been listed at least once.
    pub complete: bool,
    /// Why it last failed. It is kept after the watch has recovered.
    pub last_error: Option<String>,
    /// How often the task of the watch has panicked. It is started again each time.
    pub panics: u64,
    /// Whether it has panicked and not listed the resource since: what it watches no longer follows the cluster.
    pub is_down: bool,
}
