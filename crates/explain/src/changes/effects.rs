//! What differs between two plans: the causes, the Services, and the behaviour.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::{DiffItem, ServiceName, Snapshot, note_changed};
use portolan_plan::{Endpoint, Plan, Pool, ServicePlan};

use super::causes::causes;
use super::{ChangeEntry, shortened};
use crate::difference::{BehaviourChange, described_changes};

/// How much of one change is kept.
const MOST_SERVICES: usize = 64;
const MOST_BEHAVIOUR: usize = 40;
const MOST_CAUSES: usize = 20;
/// A larger pool is not listed.
const MOST_LISTED: usize = 8;
const MOST_NEW: usize = 4;

/// The differences between two plans; the cost follows the change.
pub struct Effects {
    services: BTreeSet<ServiceName>,
    entry: ChangeEntry,
}

impl Effects {
    pub fn between(before: &Plan, after: &Plan) -> Self {
        let mut entry = ChangeEntry::default();
        (entry.behaviour, entry.more_behaviour) = behaviour(before, after);
        let services = changed(before.facts(), after.facts());
        let mut causes = causes(before.facts(), after.facts(), &services, !entry.behaviour.is_empty());
        entry.more_causes = causes.len().saturating_sub(MOST_CAUSES);
        causes.truncate(MOST_CAUSES);
        entry.causes = causes;
        Self { services, entry }
    }

    /// Whether there is nothing to tell: the facts that differ matter to no rule and to no client.
    pub fn is_empty(&self) -> bool {
        self.entry.causes.is_empty() && self.entry.behaviour.is_empty()
    }

    pub fn into_entry(self) -> ChangeEntry {
        let services = self.services.iter().take(MOST_SERVICES).map(ToString::to_string).collect();
        let more_services = self.services.len().saturating_sub(MOST_SERVICES);
        ChangeEntry { services, more_services, ..self.entry }
    }
}

fn changed(before: &Snapshot, after: &Snapshot) -> BTreeSet<ServiceName> {
    let mut changed = BTreeSet::new();
    note_changed(&before.services, &after.services, &mut changed);
    note_changed(&before.slices, &after.slices, &mut changed);
    note_changed(&before.observed, &after.observed, &mut changed);
    changed
}

fn behaviour(before: &Plan, after: &Plan) -> (Vec<BehaviourChange>, usize) {
    let (mut kept, mut more) = (Vec::new(), 0);
    for item in before.services.diff(&after.services) {
        let (old, new) = match item {
            DiffItem::Add(_, new) => (None, Some(new)),
            DiffItem::Remove(_, old) => (Some(old), None),
            DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
        };
        match kept.len() < MOST_BEHAVIOUR {
            true => kept.extend(port_changes(old, new)),
            false => more += 1,
        }
    }
    more += kept.len().saturating_sub(MOST_BEHAVIOUR);
    kept.truncate(MOST_BEHAVIOUR);
    (kept, more)
}

fn port_changes(old: Option<&Arc<ServicePlan>>, new: Option<&Arc<ServicePlan>>) -> Vec<BehaviourChange> {
    let words = |port: &ServicePlan, pool: Pool| {
        let is_old = old.is_some_and(|old| std::ptr::eq(&**old, port));
        pool_words(port, pool, if is_old { new } else { old })
    };
    let mut changes = described_changes(old, new, &words);
    for change in &mut changes {
        change.before = change.before.as_deref().map(shortened);
        change.after = change.after.as_deref().map(shortened);
    }
    changes
}

/// A small pool is listed; of a large one, the endpoints that the other plan lacks.
fn pool_words(port: &ServicePlan, pool: Pool, other: Option<&Arc<ServicePlan>>) -> String {
    if port.pool(pool).len() <= MOST_LISTED {
        return port.shares(pool).join(" or ");
    }
    let own: BTreeSet<Endpoint> = port.pool(pool).iter().copied().collect();
    if own.len() <= MOST_LISTED {
        return port.shares(pool).join(" or ");
    }
    let others: BTreeSet<Endpoint> = other.iter().flat_map(|other| other.pool(pool)).copied().collect();
    let lacking: Vec<String> = own.difference(&others).map(|it| it.socket().to_string()).collect();
    let count = own.len();
    match lacking.len() {
        0 => format!("{count} endpoints"),
        all if all == count => format!("{count} endpoints"),
        some if some > MOST_NEW => {
            format!("{count} endpoints, among them {} and {} more", lacking[..MOST_NEW].join(", "), some - MOST_NEW)
        }
        _ => format!("{count} endpoints, among them {}", lacking.join(", ")),
    }
}
