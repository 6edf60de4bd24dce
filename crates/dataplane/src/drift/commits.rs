//! Foreign commits to nf_tables, which the kernel notifies.

use portolan_kernel::nftables::{self as kernel, Monitor, Nftables, Notice};
use portolan_model::Family;

use super::{ComparedState, ForeignChange, WATCH_INTERVAL};
use crate::{Error, Trust};

/// Receives notifications. Each commit is reported once.
pub(crate) struct CommitWatch {
    monitor: Monitor,
    handle: Nftables,
    compared: ComparedState,
    reported: Option<u32>,
    /// What a sync may assume after a commit whose notifications were all received.
    trust: Trust,
}

impl CommitWatch {
    /// For the network namespace of the calling thread.
    pub(crate) fn new(monitor: Monitor, compared: ComparedState, trust: Trust) -> Result<Self, Error> {
        Ok(Self { monitor, handle: Nftables::open()?, compared, reported: None, trust })
    }

    /// Waits for a commit with a wanted notification. The place is where the change was, in words.
    pub(crate) fn wait(
        &mut self,
        is_wanted: &mut dyn FnMut(&Notice<'_>) -> bool,
        place: impl Fn(Family) -> String,
    ) -> Result<Option<ForeignChange>, Error> {
        let Some(change) = self.monitor.wait_for(Some(WATCH_INTERVAL), is_wanted)? else { return Ok(None) };
        let (what, state, trust, process) = match change {
            kernel::ForeignChange::Changed { family, what, generation, process } => {
                (format!("another process {what} in {}", place(family)), generation, self.trust, process)
            }
            kernel::ForeignChange::Overflow => {
                let what = "notifications were lost: there were too many foreign changes";
                (what.into(), self.handle.generation()?, Trust::Nothing, None)
            }
        };
        let is_new = self.reported.replace(state) != Some(state);
        let change = ForeignChange::new(what, state, self.compared.clone()).with_trust(trust).with_process(process);
        Ok(Some(change).filter(|change| is_new && !change.is_compared()))
    }
}
