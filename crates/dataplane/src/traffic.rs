//! Traffic by Service and endpoint, and refusals by reason, from the kernel's counters.
//!
//! The kernel counts by pairs of frontend and endpoint. Here the plan maps pairs to Services and endpoints, and only
//! the increase since the last reading is added: a number never decreases when the kernel restarts a counter, and
//! unused pairs can be deleted from the kernel.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use portolan_kernel::nftables::Count;
use portolan_model::{Family, Protocol};
use portolan_plan::{Plan, PortKey, Refusal, ServicePlan};

use crate::Error;

/// Reads a mode's counters, on another thread than the one that syncs.
pub trait ReadTraffic: Send {
    /// Passes counters that are not needed any more to `forget`, which has the syncing thread delete them.
    fn read(&mut self, plan: &Plan, forget: &mut ForgetCounts<'_>) -> Result<&TrafficSample, Error>;
}

/// Deletes counters from the kernel.
pub type ForgetCounts<'a> = dyn FnMut(&[(Pair, Usage)]) -> Result<(), Error> + 'a;

/// A kernel with counters.
pub trait CountTraffic {
    fn read_counts(&mut self) -> Result<Counts, Error>;

    /// Deletes the counters of these pairs; they restart when used again. Packets that are counted meanwhile are lost.
    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error>;

    /// Whether counters outlive what they count, so that idle ones must be deleted. Others go with their rule or destination.
    fn outlive_endpoints(&self) -> bool {
        true
    }
}

/// The kernel's current counters.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub pairs: HashMap<Pair, Usage>,
    pub refusals: BTreeMap<(Family, Refusal), Count>,
    /// The most pairs of one family that the kernel can count.
    pub capacity: usize,
}

/// The frontend and the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    pub protocol: Protocol,
    pub destination: IpAddr,
    pub port: u16,
    pub endpoint: IpAddr,
    pub endpoint_port: u16,
}

/// Bytes are those of whole IP packets. Packets that GRO has merged count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// New connections; for UDP, new flows.
    pub connections: u64,
    /// From clients.
    pub requests: Count,
    /// To clients.
    pub replies: Count,
}

/// Totals since the daemon started, plus what the kernel had counted before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficSample {
    /// Service ports of the plan with traffic.
    pub services: BTreeMap<PortKey, ServiceTraffic>,
    /// First packets of refused connections.
    pub refusals: BTreeMap<(Family, Refusal), Count>,
    /// Pairs in the kernel.
    pub pairs: usize,
    /// The kernel has no room for more pairs: new ones are not counted.
    pub is_full: bool,
    /// Packets that connection tracking calls invalid, where they are counted.
    pub invalid_dropped: Option<u64>,
    /// Connections to node ports at 127.0.0.1, where they are counted.
    pub loopback_accepted: Option<u64>,
    /// Open connections that the daemon carries.
    pub carried: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTraffic {
    /// Never less than the sum of the endpoints: it includes endpoints that are gone.
    pub total: Usage,
    /// Current endpoints with traffic.
    pub endpoints: BTreeMap<SocketAddr, Usage>,
    pub relayed: Relayed,
}

/// Counters of the relay besides traffic, in a mode whose daemon carries connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    pub dial_errors: u64,
    pub retries: u64,
    pub failed: u64,
    /// Connections that waited because of a limit.
    pub waits: u64,
}

/// Keeps totals between readings.
#[derive(Debug, Default)]
pub struct Traffic {
    seen: HashMap<Pair, Usage>,
    seen_refusals: BTreeMap<(Family, Refusal), Count>,
    sample: TrafficSample,
}

impl Traffic {
    pub fn new() -> Self {
        Self::default()
    }

    /// The last reading.
    pub fn sample(&self) -> &TrafficSample {
        &self.sample
    }

    /// What a mode counts besides pairs is written here.
    pub(crate) fn sample_mut(&mut self) -> &mut TrafficSample {
        &mut self.sample
    }

    /// Reads the kernel's counters, and deletes those that are not needed. Call it often enough that few Services
    /// change in between, such as every 15 seconds: traffic is attributed to the current owner of the address.
    pub fn read(&mut self, kernel: &mut dyn CountTraffic, plan: &Plan) -> Result<&TrafficSample, Error> {
        let counts = kernel.read_counts()?;
        self.sample.forget_what_is_gone(plan);
        self.add_refusals(&counts);
        let idle = self.add_pairs(&counts, plan);
        self.note_room(&counts);
        self.seen = counts.pairs;
        if kernel.outlive_endpoints() && !idle.is_empty() {
            kernel.forget_counts(&idle)?;
            idle.iter().for_each(|(pair, _)| _ = self.seen.remove(pair));
        }
        Ok(&self.sample)
    }

    fn add_refusals(&mut self, counts: &Counts) {
        for (refusal, now) in &counts.refusals {
            let before = self.seen_refusals.insert(*refusal, *now).unwrap_or_default();
            add(self.sample.refusals.entry(*refusal).or_default(), since(before, *now));
        }
    }

    /// Adds the increase, and returns the pairs to delete: unused since the last reading, and either without a Service
    /// or needed as room.
    fn add_pairs(&mut self, counts: &Counts, plan: &Plan) -> Vec<(Pair, Usage)> {
        let is_crowded = counts.busiest_family() > counts.capacity / 4 * 3;
        let mut idle = Vec::new();
        for (pair, now) in &counts.pairs {
            let more = now.since(self.seen.get(pair).copied().unwrap_or_default());
            if more != Usage::default() {
                self.sample.add(pair, more, plan);
            } else if is_crowded || !is_served(pair, plan) {
                idle.push((*pair, *now));
            }
        }
        idle
    }

    fn note_room(&mut self, counts: &Counts) {
        self.sample.pairs = counts.pairs.len();
        self.sample.is_full = counts.busiest_family() >= counts.capacity;
    }
}

impl TrafficSample {
    /// Drops what is not part of the Service any more; its own totals stay.
    pub(crate) fn forget_what_is_gone(&mut self, plan: &Plan) {
        self.services.retain(|key, traffic| {
            let service = plan.services.get(key);
            traffic.endpoints.retain(|endpoint, _| service.is_some_and(|service| serves(service, *endpoint)));
            service.is_some()
        });
    }

    fn add(&mut self, pair: &Pair, more: Usage, plan: &Plan) {
        let Some(service) = service_of(pair, plan) else { return };
        self.services.entry(service.key.clone()).or_default().total.add(more);
        self.add_to_endpoint(plan, &service.key, pair.endpoint(), more);
    }

    /// An endpoint that is gone has no numbers of its own.
    pub(crate) fn add_to_endpoint(&mut self, plan: &Plan, port: &PortKey, endpoint: SocketAddr, more: Usage) {
        let is_current = plan.services.get(port).is_some_and(|service| serves(service, endpoint));
        if is_current && more != Usage::default() {
            let traffic = self.services.entry(port.clone()).or_default();
            traffic.endpoints.entry(endpoint).or_default().add(more);
        }
    }
}

impl Pair {
    pub fn endpoint(&self) -> SocketAddr {
        SocketAddr::new(self.endpoint, self.endpoint_port)
    }
}

impl Counts {
    fn busiest_family(&self) -> usize {
        let v4 = self.pairs.keys().filter(|pair| pair.destination.is_ipv4()).count();
        v4.max(self.pairs.len() - v4)
    }
}

impl Usage {
    pub(crate) fn add(&mut self, more: Usage) {
        self.connections += more.connections;
        add(&mut self.requests, more.requests);
        add(&mut self.replies, more.replies);
    }

    /// A counter that is lower than before has restarted.
    pub(crate) fn since(self, before: Usage) -> Usage {
        Usage {
            connections: difference(before.connections, self.connections),
            requests: since(before.requests, self.requests),
            replies: since(before.replies, self.replies),
        }
    }
}

/// Bytes only.
pub(crate) fn bytes(bytes: u64) -> Count {
    Count { packets: 0, bytes }
}

fn add(count: &mut Count, more: Count) {
    count.packets += more.packets;
    count.bytes += more.bytes;
}

/// A counter that is lower than before has restarted.
fn since(before: Count, now: Count) -> Count {
    if now.packets < before.packets {
        return now;
    }
    Count { packets: now.packets - before.packets, bytes: difference(before.bytes, now.bytes) }
}

fn difference(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn service_of<'a>(pair: &Pair, plan: &'a Plan) -> Option<&'a ServicePlan> {
    let claim = plan.holder(pair.destination, pair.port, pair.protocol)?;
    plan.services.get(&claim.holder).map(|service| &**service)
}

fn serves(service: &ServicePlan, endpoint: SocketAddr) -> bool {
    service.serving().any(|it| it.socket() == endpoint)
}

fn is_served(pair: &Pair, plan: &Plan) -> bool {
    service_of(pair, plan).is_some_and(|service| serves(service, pair.endpoint()))
}
