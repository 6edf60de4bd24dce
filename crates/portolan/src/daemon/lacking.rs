//! Services that ask for an algorithm that the mode does not have: logged once for each Service and change.

use std::collections::BTreeMap;

use portolan_model::{Algorithm, DiffItem, ServiceName};
use portolan_plan::{Balance, Plan};

/// Those that did not lack it before. The cost follows what changed.
pub(super) fn newly_lacking(before: &Plan, after: &Plan) -> BTreeMap<ServiceName, (Algorithm, Algorithm)> {
    let mut found = BTreeMap::new();
    for change in before.services.diff(&after.services) {
        let (old, (key, new)) = match change {
            DiffItem::Add(key, new) => (None, (key, new)),
            DiffItem::Update { old: (_, old), new } => (Some(old), new),
            DiffItem::Remove(..) => continue,
        };
        let Balance { lacking, algorithm, .. } = new.balance;
        if let Some(lacking) = lacking.filter(|_| old.is_none_or(|old| old.balance != new.balance)) {
            found.insert(key.name.service.clone(), (lacking, algorithm.unwrap_or_default()));
        }
    }
    found
}
