//! Which Services differ between two snapshots in what rules are made of.

use std::collections::BTreeSet;

use portolan_model::{ServiceName, Snapshot, note_changed};

pub(crate) fn changed_services(before: &Snapshot, after: &Snapshot) -> BTreeSet<ServiceName> {
    let mut changed = BTreeSet::new();
    note_changed(&before.services, &after.services, &mut changed);
    note_changed(&before.slices, &after.slices, &mut changed);
    note_changed(&before.observed, &after.observed, &mut changed);
    changed
}
