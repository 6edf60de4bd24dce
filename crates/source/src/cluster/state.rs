//! What others may ask about the watches besides the snapshot.

use std::time::{Instant, SystemTime};

use portolan_model::Family;

/// What the API server says of our own Node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It has not answered yet.
    #[default]
    Unknown,
    Absent,
    Present {
        deleting: bool,
        /// The cluster autoscaler is about to remove the machine.
        to_be_deleted_taint: bool,
    },
}

/// What changed since somebody last asked.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// How often a Service came, changed or went.
    pub services: u64,
    /// How often a slice did.
    pub endpoints: u64,
    /// When the first of these changes arrived here.
    pub oldest: Option<Instant>,
    /// When what caused them happened, as the slices say themselves.
    pub triggers: Vec<(Family, SystemTime)>,
}

impl Changes {
    /// So many trigger times are kept at most: they feed a histogram, which a burst must not turn into a burden.
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

/// How one of the watches is doing.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// `Services`, `EndpointSlices`, `Node` or `ServiceCIDRs`.
    pub what: &'static str,
    pub connected: bool,
    /// When it last connected, or lost its connection.
    pub since: SystemTime,
    /// Whether everything there is has been seen at least once.
    pub complete: bool,
    /// Why it last failed. It stays while all is well again, as a hint at what was.
    pub last_error: Option<String>,
}
