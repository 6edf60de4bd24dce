//! What was done, what was left and why, and what went wrong.

use std::fmt;

use super::Place;
use super::chains::Removal;

#[derive(Debug, Default)]
pub struct Report {
    pub removed: Vec<String>,
    /// What is kube-proxy's by its name, but in use by somebody else.
    pub kept: Vec<String>,
    pub failed: Vec<Trouble>,
}

/// Something that could not be done, and why.
#[derive(Debug, thiserror::Error)]
#[error("{attempted}: {reason}")]
pub struct Trouble {
    attempted: String,
    reason: String,
}

impl Trouble {
    pub fn new(attempted: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { attempted: attempted.into(), reason: reason.to_string() }
    }
}

impl Report {
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    pub(super) fn note<Id>(&mut self, place: Place, removals: &[Removal<Id>]) {
        let chains: usize = removals.iter().map(|removal| removal.chains.len()).sum();
        let jumps: usize = removals.iter().map(|removal| removal.jumps.len()).sum();
        if chains + jumps > 0 {
            self.removed.push(format!("{place}: {chains} chains and {jumps} rules that lead to them"));
        }
        for removal in removals {
            let kept = removal.kept.iter();
            let table = &removal.table;
            self.kept
                .extend(kept.map(|(chain, user)| format!("chain {chain} of {place}, table {table}: used by {user}")));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.removed.iter().try_for_each(|what| writeln!(formatter, "removed {what}"))?;
        self.kept.iter().try_for_each(|what| writeln!(formatter, "kept {what}"))?;
        self.failed.iter().try_for_each(|what| writeln!(formatter, "failed: {what}"))
    }
}
