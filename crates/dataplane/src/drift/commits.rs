//! Foreign commits to nf_tables, which the kernel notifies.

use portolan_kernel::nftables::{self as kernel, Monitor, Nftables, Notice, full_generation};
use portolan_model::Family;

use super::{ComparedState, ForeignChange, WATCH_INTERVAL};
use crate::Error;

/// Receives notifications. Each commit is reported once.
pub(crate) struct CommitWatch {
    monitor: Monitor,
    handle: Nftables,
    compared: ComparedState,
    reported: Option<u32>,
}

impl CommitWatch {
    /// For the network namespace of the calling thread.
    pub(crate) fn new(monitor: Monitor, compared: ComparedState) -> Result<Self, Error> {
        Ok(Self { monitor, handle: Nftables::open()?, compared, reported: None })
    }

    /// Waits for a wanted notification. The place is where the change was, in words.
    pub(crate) fn wait(
        &mut self,
        is_wanted: &dyn Fn(&Notice<'_>) -> bool,
        place: impl Fn(Family) -> String,
    ) -> Result<Option<ForeignChange>, Error> {
        let Some(change) = self.monitor.wait_for(Some(WATCH_INTERVAL), is_wanted)? else { return Ok(None) };
        let now = self.handle.generation()?;
        let (what, state) = match change {
            kernel::ForeignChange::Changed { family, what, generation } => {
                (format!("another process {what} in {}", place(family)), full_generation(generation, now))
            }
            kernel::ForeignChange::Overflow => {
                ("notifications were lost: there were too many foreign changes".into(), now)
            }
        };
        let is_new = self.reported.replace(state) != Some(state);
        let change = ForeignChange::new(what, state, self.compared.clone());
        Ok(Some(change).filter(|change| is_new && !change.is_compared()))
    }
}
