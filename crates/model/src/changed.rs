//! Finds the Services that differ between two snapshots, skipping everything that the snapshots share.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::ServiceName;

/// Adds the names of Services that were added, removed or changed.
pub fn note_changed<T: Eq>(
    before: &OrdMap<ServiceName, Arc<T>>,
    after: &OrdMap<ServiceName, Arc<T>>,
    into: &mut BTreeSet<ServiceName>,
) {
    into.extend(before.diff(after).map(|item| match item {
        DiffItem::Add(name, _) | DiffItem::Remove(name, _) => name.clone(),
        DiffItem::Update { new, .. } => new.0.clone(),
    }));
}
