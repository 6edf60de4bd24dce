//! Notices changes by other processes: to the table, by notification, and to the hooks, by looking.

use super::attached::Attached;
use super::hooks::{HookPlace, link_programs};
use crate::Error;
use crate::drift::ForeignChange;
use crate::mode::WatchForeignChanges;

/// The table's watch returns a few times a second, and the hooks are looked at each time.
pub(super) struct HookWatch {
    table: Box<dyn WatchForeignChanges>,
    place: HookPlace,
    attached: Attached,
    /// What was found when a change was reported: it is reported once.
    reported: Option<Vec<(String, u32)>>,
}

impl HookWatch {
    pub(super) fn new(table: Box<dyn WatchForeignChanges>, place: HookPlace, attached: Attached) -> Self {
        Self { table, place, attached, reported: None }
    }

    /// A program that is missing, or that another one has replaced.
    fn look(&mut self) -> Option<ForeignChange> {
        let found = link_programs(&self.place);
        let lost = self.attached.lost(&found)?;
        let is_new = self.reported.as_ref() != Some(&found);
        self.reported = Some(found);
        is_new.then(|| ForeignChange::from(format!("another process detached the hook {lost}")))
    }
}

impl WatchForeignChanges for HookWatch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        Ok(self.table.wait()?.or_else(|| self.look()))
    }
}
