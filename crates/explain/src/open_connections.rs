//! What happens to open connections of a Service port when its endpoints change, where that is not the default.

use portolan_model::{Rebalance, RemovedConnections};
use portolan_plan::OpenConnections;

/// The setting for connections of removed endpoints, as in the annotation.
pub(crate) fn removed(settings: OpenConnections) -> Option<String> {
    (settings.removed != RemovedConnections::Keep).then(|| settings.removed.to_string())
}

/// The setting for rebalancing, as in the annotation.
pub(crate) fn rebalance(settings: OpenConnections) -> Option<String> {
    (settings.rebalance != Rebalance::Off).then(|| settings.rebalance.to_string())
}

/// One line for each setting.
pub(crate) fn lines(removed: Option<&str>, rebalance: Option<&str>) -> Vec<String> {
    let removed = removed.map(|setting| format!("removed endpoints: {setting}"));
    let rebalance = rebalance.map(|setting| format!("rebalance: {setting}"));
    removed.into_iter().chain(rebalance).collect()
}
