//! Which Services differ between two snapshots, found by skipping everything that they share.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::{DiffItem, OrdMap, ServiceName, Snapshot};

pub(crate) fn changed_services(before: &Snapshot, after: &Snapshot) -> BTreeSet<ServiceName> {
    let mut changed = BTreeSet::new();
    collect(&before.services, &after.services, &mut changed);
    collect(&before.slices, &after.slices, &mut changed);
    changed
}

fn collect<T: Eq>(
    before: &OrdMap<ServiceName, Arc<T>>,
    after: &OrdMap<ServiceName, Arc<T>>,
    into: &mut BTreeSet<ServiceName>,
) {
    into.extend(before.diff(after).map(|item| match item {
        DiffItem::Add(name, _) | DiffItem::Remove(name, _) => name.clone(),
        DiffItem::Update { new, .. } => new.0.clone(),
    }));
}
