//! What happens to open connections when the endpoints of a Service port change.

use portolan_model::{Balancing, Protocol, Rebalance, RemovedConnections};

/// For TCP alone: other protocols have no reset, so that this is the default for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenConnections {
    /// Connections to an endpoint that is gone.
    pub removed: RemovedConnections,
    /// Idle connections to endpoints with more than their share.
    pub rebalance: Rebalance,
}

impl OpenConnections {
    pub(crate) fn decide(balancing: Option<&Balancing>, defaults: &Balancing, protocol: Protocol) -> Self {
        if protocol != Protocol::Tcp {
            return Self::default();
        }
        let removed = balancing.and_then(|it| it.removed_connections).or(defaults.removed_connections);
        let rebalance = balancing.and_then(|it| it.rebalance).or(defaults.rebalance);
        Self { removed: removed.unwrap_or_default(), rebalance: rebalance.unwrap_or_default() }
    }

    /// Whether connections may be ended. The node must then see which Service a connection belongs to, which it does not where
    /// a hook translates the destination before the first packet.
    pub fn are_ended(self) -> bool {
        self != Self::default()
    }
}
