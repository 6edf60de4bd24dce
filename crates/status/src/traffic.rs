//! Traffic counters of Services and endpoints, read from the kernel on scrapes, at a limited rate.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::Family;
use portolan_plan::{PortKey, Reason};

use crate::fold::Fold;

/// Reading is expensive; an earlier scrape gets the previous values.
pub(crate) const READ_AT_MOST_EVERY: Duration = Duration::from_secs(5);

/// Reads the counters of the kernel. It may block: it runs on its own thread, and never concurrently.
pub type ReadTraffic = Arc<dyn Fn() -> anyhow::Result<TrafficSample> + Send + Sync>;

/// All counters of the kernel, each since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficSample {
    pub services: Vec<(PortKey, Counters)>,
    pub endpoints: Vec<((PortKey, SocketAddr), Counters)>,
    /// Packets that were dropped or rejected.
    pub refusals: Vec<(Reason, Family, u64)>,
    /// Pairs of a frontend and an endpoint that the kernel counts.
    pub pairs: usize,
    /// The counter sets of the kernel are full: new pairs are not counted.
    pub is_full: bool,
    /// Connections that the daemon relays.
    pub carried: usize,
    /// kube-proxy's counters of iptables mode; `None` if the kernel has none.
    pub invalid_dropped: Option<u64>,
    pub loopback_accepted: Option<u64>,
}

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

/// The number of separate series; the rest share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficLimits {
    pub service_ports: usize,
    pub endpoints: usize,
}

impl Default for TrafficLimits {
    fn default() -> Self {
        Self { service_ports: 2_000, endpoints: 2_000 }
    }
}

/// The exported traffic.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) services: Fold<PortKey>,
    pub(crate) endpoints: Fold<(PortKey, SocketAddr)>,
    pub(crate) refusals: Vec<(Reason, Family, u64)>,
}

impl Traffic {
    pub(crate) fn new(limits: TrafficLimits) -> Self {
        let (services, endpoints) = (Fold::new(limits.service_ports), Fold::new(limits.endpoints));
        Self { services, endpoints, refusals: Vec::new() }
    }

    pub(crate) fn update(&mut self, sample: TrafficSample) {
        self.services.update(sample.services);
        self.endpoints.update(sample.endpoints);
        self.refusals = sample.refusals;
    }
}
