//! Notices changes by other processes: to the table, by notification, and to the hooks, by looking.

use super::attached::Attached;
use super::hook_place::HookPlace;
use super::hooks::link_programs;
use crate::Error;
use crate::drift::ForeignChange;
use crate::mode::WatchForeignChanges;

/// The table's watch returns a few times a second, and the hooks are looked at each time.
pub(super) struct HookWatch {
    table: Box<dyn WatchForeignChanges>,
    place: HookPlace,
    attached: Attached,
    /// How often the hooks were attached, and what was found, when a change was reported: it is reported once until they are
    /// attached again.
    reported: Option<(u64, Vec<(String, u32)>)>,
}

impl HookWatch {
    pub(super) fn new(table: Box<dyn WatchForeignChanges>, place: HookPlace, attached: Attached) -> Self {
        Self { table, place, attached, reported: None }
    }

    /// A program that is missing, or that another one has replaced.
    fn look(&mut self) -> Option<ForeignChange> {
        self.attached.lost(&link_programs(&self.place))?;
        // This process may have attached the programs between the two.
        let found = link_programs(&self.place);
        let (lost, times) = self.attached.lost(&found)?;
        let reported = self.reported.replace((times, found));
        (reported != self.reported).then(|| ForeignChange::from(format!("another process detached the hook {lost}")))
    }
}

impl WatchForeignChanges for HookWatch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        Ok(self.table.wait()?.or_else(|| self.look()))
    }
}
