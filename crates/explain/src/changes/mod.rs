//! What changed, why, and what it means for clients.
//!
//! | file | idea |
//! |---|---|
//! | `causes` | the objects that differ between two snapshots, in words |
//! | `endpoints` | the same within the slices of a Service |
//! | `effects` | what differs for clients between two plans |
//! | `text` | changes as lines for people |
//!
//! An entry has a bounded size, however large the change is.

mod causes;
mod effects;
mod endpoints;
mod text;

use serde::{Deserialize, Serialize};

use crate::difference::BehaviourChange;

pub use effects::Effects;

/// The newest changes, the oldest of them first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChangesAnswer {
    /// The number of the newest change; 0 if there is none.
    pub newest: u64,
    /// The number of the oldest change that is kept.
    pub oldest: u64,
    /// Whether none is missing between the asked number and the first of these.
    pub is_complete: bool,
    pub changes: Vec<ChangeEntry>,
}

/// One sync that found a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeEntry {
    pub number: u64,
    /// When it was in force.
    pub unix_ms: u64,
    pub kind: ChangeKind,
    /// From the first event to the kernel.
    pub latency_ms: Option<f64>,
    pub kernel_ms: f64,
    /// Kernel objects that were written.
    pub objects: usize,
    pub causes: Vec<Cause>,
    pub more_causes: usize,
    /// The Services that differ, as `namespace/name`.
    pub services: Vec<String>,
    pub more_services: usize,
    pub behaviour: Vec<BehaviourChange>,
    pub more_behaviour: usize,
    pub drift: Option<Drift>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The first sync of the daemon.
    Start,
    #[default]
    Change,
    /// Another process had changed the kernel's objects.
    Repair,
    /// The configuration differs.
    Settings,
    /// The kernel could not be programmed.
    Failure,
}

/// What led to a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The kind of the object, or `Endpoint` (observed), `Addresses`, `Configuration` or `Kernel`.
    pub kind: String,
    pub name: String,
    pub what: String,
}

/// A foreign change of the kernel's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    pub what: String,
    /// The process that made it, where the kernel says so.
    pub process: Option<String>,
    /// Objects that were repaired.
    pub repaired: usize,
}

impl Cause {
    pub fn new(kind: &str, name: impl ToString, what: impl ToString) -> Self {
        Self { kind: kind.into(), name: shortened(&name.to_string()), what: shortened(&what.to_string()) }
    }
}

/// The longest text in an entry, in bytes.
const LONGEST: usize = 400;

pub(crate) fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

impl ChangeEntry {
    /// How much memory it takes, roughly.
    pub fn size(&self) -> usize {
        let causes = self.causes.iter().map(|it| it.kind.len() + it.name.len() + it.what.len() + 72);
        let services = self.services.iter().map(|it| it.len() + 24);
        let texts =
            |it: &BehaviourChange| it.before.as_ref().map_or(0, String::len) + it.after.as_ref().map_or(0, String::len);
        let behaviour = self.behaviour.iter().map(|it| it.service.len() + it.frontend.len() + texts(it) + 96);
        let drift = self.drift.as_ref().map_or(0, |it| it.what.len() + 48);
        size_of::<Self>() + causes.sum::<usize>() + services.sum::<usize>() + behaviour.sum::<usize>() + drift
    }
}
