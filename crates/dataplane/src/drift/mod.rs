//! Notices foreign changes: by the kernel's notifications ([`CommitWatch`]), or by numbers of objects where it sends none
//! ([`CountWatch`]).
//!
//! One foreign change may be noticed several times, also after a sync has read the kernel: the kernel describes one commit in
//! many notifications. A [`ForeignChange`] therefore has the state of the kernel that it belongs to, and is dropped if that
//! state has been compared since.

mod commits;
mod counts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) use commits::CommitWatch;
pub(crate) use counts::{CountWatch, Counts, Ledger};

use crate::{Error, Trust};

/// How long one wait of a watch lasts, and the time between two looks.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// Waits for changes that another process makes to a mode's objects.
pub trait WatchForeignChanges: Send {
    /// Returns what changed, or `None` after a fraction of a second: the watch ends with its mode.
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error>;
}

/// What another process has changed, or may have.
#[derive(Debug)]
pub struct ForeignChange {
    what: String,
    /// The state of the kernel from which on it is changed, and the state that was compared last.
    since: Option<(u32, ComparedState)>,
    trust: Trust,
    process: Option<String>,
}

impl ForeignChange {
    fn new(what: String, state: u32, compared: ComparedState) -> Self {
        Self { what, since: Some((state, compared)), trust: Trust::Nothing, process: None }
    }

    fn with_trust(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    fn with_process(self, process: Option<String>) -> Self {
        Self { process, ..self }
    }

    /// The process that made it, such as `nft (pid 4711)`, where the kernel names it.
    pub fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }

    /// What the sync that repairs it may assume about the kernel.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Whether the kernel was read since: the sync that did so has found the change.
    pub fn is_compared(&self) -> bool {
        self.since.as_ref().is_some_and(|(state, compared)| compared.includes(*state))
    }
}

/// A change of unknown time, which any comparison may have missed.
impl From<String> for ForeignChange {
    fn from(what: String) -> Self {
        Self { what, since: None, trust: Trust::Nothing, process: None }
    }
}

impl fmt::Display for ForeignChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

/// The last state of the kernel that a sync has read, or has made by commits of its own. States are numbered: by the
/// generation of nf_tables, or by the reads of this process where the kernel does not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparedState(Arc<AtomicU32>);

impl ComparedState {
    pub(crate) fn set(&self, state: u32) {
        self.0.store(state, Ordering::Release);
    }

    /// Numbers wrap around.
    fn includes(&self, state: u32) -> bool {
        self.0.load(Ordering::Acquire).wrapping_sub(state) < u32::MAX / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_compared_by_the_first_read_that_includes_it() {
        let compared = ComparedState::default();
        compared.set(u32::MAX);
        let change = |state| ForeignChange::new("a rule".into(), state, compared.clone());
        let (before, after) = (change(u32::MAX), change(1));
        assert!(before.is_compared() && !after.is_compared());
        compared.set(0);
        assert!(before.is_compared() && !after.is_compared());
        compared.set(1);
        assert!(before.is_compared() && after.is_compared());
        assert!(!ForeignChange::from("at any time".to_owned()).is_compared());
    }
}
