//! The traffic of one Service port or endpoint.

use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counters {
    /// New connections; for UDP, new flows.
    pub connections: u64,
    /// From clients.
    pub requests: Volume,
    /// To clients.
    pub replies: Volume,
    pub relayed: Relayed,
}

/// Counted only where the daemon relays connections itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relayed {
    /// Endpoints that refused or did not answer in time.
    pub dial_errors: u64,
    /// Dials to further endpoints because of that.
    pub retries: u64,
    /// Clients that no endpoint answered.
    pub failed: u64,
    /// How often clients waited because of the connection limit.
    pub waits: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume {
    pub packets: u64,
    pub bytes: u64,
}

impl Counters {
    /// The difference since `earlier`. A counter that is lower than before was reset in between.
    pub(crate) fn since(self, earlier: Self) -> Self {
        self.with(earlier, |now, before| if now < before { now } else { now - before })
    }

    fn with(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let volume = |one: Volume, other: Volume| Volume {
            packets: join(one.packets, other.packets),
            bytes: join(one.bytes, other.bytes),
        };
        Self {
            connections: join(self.connections, other.connections),
            requests: volume(self.requests, other.requests),
            replies: volume(self.replies, other.replies),
            relayed: Relayed {
                dial_errors: join(self.relayed.dial_errors, other.relayed.dial_errors),
                retries: join(self.relayed.retries, other.relayed.retries),
                failed: join(self.relayed.failed, other.relayed.failed),
                waits: join(self.relayed.waits, other.relayed.waits),
            },
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, u64::saturating_add);
    }
}
