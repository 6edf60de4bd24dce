//! Traffic counters of Services and endpoints, read from the kernel on scrapes, at a limited rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::Family;
use portolan_plan::{PortKey, Reason};

use crate::counters::Counters;
use crate::fold::Fold;

/// Reading is expensive; an earlier scrape gets the previous values.
pub(crate) const READ_AT_MOST_EVERY: Duration = Duration::from_secs(5);

/// Reads the counters of the kernel. It may block: it runs on its own thread, and never concurrently.
pub type ReadTraffic = Arc<dyn Fn() -> anyhow::Result<TrafficSample> + Send + Sync>;

/// All counters of the kernel, each since it was created.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Open connections, where there are any.
    pub loads: Vec<PortLoad>,
}

/// The open connections of a Service port, by endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct PortLoad {
    pub port: PortKey,
    /// Those of the most loaded endpoint, divided by its share.
    pub imbalance: f64,
    pub open: Vec<(SocketAddr, u32)>,
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
    pub(crate) loads: Loads,
    limits: TrafficLimits,
}

/// The busiest Service ports and endpoints. Unlike counters, these can come and go without harm.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    pub(crate) imbalances: Vec<(PortKey, f64)>,
    pub(crate) open: Vec<((PortKey, SocketAddr), u32)>,
    /// Connections of all other endpoints.
    pub(crate) others: u64,
}

impl Loads {
    fn of(sample: Vec<PortLoad>, limits: TrafficLimits) -> Self {
        let mut ports: Vec<(u64, PortLoad)> =
            sample.into_iter().map(|load| (load.open.iter().map(|(_, open)| u64::from(*open)).sum(), load)).collect();
        ports.sort_by_key(|(open, _)| std::cmp::Reverse(*open));
        let imbalances = ports.iter().take(limits.service_ports).map(|(_, load)| (load.port.clone(), load.imbalance));
        let imbalances = imbalances.collect();
        let endpoints = ports.into_iter().flat_map(|(_, load)| {
            load.open.into_iter().map(move |(endpoint, open)| ((load.port.clone(), endpoint), open))
        });
        let mut open: Vec<((PortKey, SocketAddr), u32)> = endpoints.collect();
        let others = open.split_off(open.len().min(limits.endpoints));
        Self { imbalances, open, others: others.iter().map(|(_, open)| u64::from(*open)).sum() }
    }
}

impl Traffic {
    pub(crate) fn new(limits: TrafficLimits) -> Self {
        let (services, endpoints) = (Fold::new(limits.service_ports), Fold::new(limits.endpoints));
        Self { services, endpoints, refusals: Vec::new(), loads: Loads::default(), limits }
    }

    pub(crate) fn update(&mut self, sample: TrafficSample) {
        self.services.update(sample.services);
        self.endpoints.update(sample.endpoints);
        self.refusals = sample.refusals;
        self.loads = Loads::of(sample.loads, self.limits);
    }
}
