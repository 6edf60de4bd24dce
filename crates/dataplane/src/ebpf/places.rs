//! Where the hooks are kept, for takeover and cleanup.

use std::fmt;

use portolan_model::Family;

use super::NAME;
use super::hook_place::HookPlace;
use super::pins::remove_hooks;
use crate::place::{Connections, Found, Outcome, Owned, Place, RemovalError, Report, Users};

/// The folder of pinned maps and links of this network namespace.
pub(super) struct HookFolder;

impl HookFolder {
    /// Without cookies of namespaces, or cgroup v2, there were never hooks.
    fn place(&self) -> Option<HookPlace> {
        HookPlace::find("/").ok().filter(|place| place.folder().exists())
    }
}

impl fmt::Display for HookFolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BPF hooks of sockets")
    }
}

impl Place for HookFolder {
    fn mode(&self) -> &'static str {
        NAME
    }

    fn users(&self) -> Users {
        Users::Portolan
    }

    fn find(&self, owned: Option<&Owned>) -> Outcome<Option<Found>> {
        let is_active = owned.is_some_and(|owned| owned.mode == NAME);
        Ok(self.place().filter(|_| !is_active).and_then(|_| Found::new(1, true)))
    }

    fn is_ours(&self) -> Outcome<bool> {
        Ok(self.place().is_some())
    }

    fn remove(&self, _: Option<&Owned>, _: Connections, report: &mut Report) -> Outcome<()> {
        let Some(place) = self.place() else { return Ok(()) };
        remove_hooks(&place.folder()).map_err(|error| RemovalError::new(format!("removing {self}"), error))?;
        report.removed.push(self.to_string());
        Ok(())
    }

    /// The rules serve alone.
    fn serves(&self, _: Family) -> bool {
        false
    }
}
