//! Which Services differ between two states, found by skipping everything that they share.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::ServiceName;

/// Adds the names whose facts came, went or changed.
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
