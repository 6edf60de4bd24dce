//! The rules of nf_tables, for the modes that use them: Services are only elements of a few named maps, so that the number of
//! rules does not depend on the number of Services. Session affinity is the exception: see `affinity`.
//!
//! ```text
//! nat prerouting ─┐
//! nat output ─────┴► dispatch ─ services, nodeports ─ ways ─► route chains ─► pool chains ─ endpoints ─► dnat
//!                              (by destination)               (by source)     (one chain per number of endpoints)
//! nat postrouting ─► masquerade what a route chain has marked, and hairpins
//! ```

mod active;
mod affinity;
mod apply;
mod bytes;
mod chains;
pub(crate) mod cleanup;
mod clients;
mod codec;
mod counts;
mod dispatch_key;
mod elements;
mod endpoints;
mod fields;
mod former;
mod kinds;
mod listing;
mod objects;
mod read;
mod render;
pub(crate) mod requirements;
mod routes;
mod rules;
mod sets;
pub(crate) mod trace;
mod turns;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use portolan_model::Family;
use portolan_plan::{LocalDetector, NodePlan, ServicePlan};

pub(crate) use active::{DAMAGE, dataplane, describe, is_same, traffic_reader, watch};
pub use apply::NftablesKernel;
pub use dispatch_key::DispatchKey;
pub use listing::listing;
pub use objects::{Chain, Key, Value};
pub use rules::Rule;
pub use sets::SetName;

use crate::walk::Rules;
use crate::{Dataplane, Objects, Tracer};

/// The only table that these rules are in, once in each family.
pub const TABLE: &str = "portolan";

/// The rules and what can be configured about them.
pub struct Nftables {
    /// The bit of the packet mark for masquerade.
    mark: u32,
    /// Whether packets and connections are counted by Service and endpoint.
    counts_traffic: bool,
    chains: Mutex<SharedChains>,
}

/// Chains shared by many Services, made once. What they do follows from their name and from how pods are detected.
#[derive(Default)]
struct SharedChains {
    detectors: [Option<LocalDetector>; 2],
    made: HashMap<(Family, Arc<str>), Arc<Chain>>,
}

impl Nftables {
    /// `masquerade_bit` is 0 to 31; kube-proxy's default is 14.
    pub fn new(masquerade_bit: u8) -> Self {
        Self { mark: 1 << (masquerade_bit & 31), counts_traffic: true, chains: Mutex::default() }
    }

    /// Refusals are still counted, because that costs nothing where nothing is refused.
    pub fn without_traffic_counters(mut self) -> Self {
        self.counts_traffic = false;
        self
    }

    /// The sets of this mode, some of them only for counters.
    fn sets(&self) -> impl Iterator<Item = SetName> {
        let counts = self.counts_traffic;
        SetName::ALL.into_iter().filter(move |set| counts || !set.is_counted())
    }
}

impl Dataplane for Nftables {
    type Key = Key;
    type Value = Value;

    fn render_node(&self, node: &NodePlan) -> Objects<Self> {
        Objects(Family::BOTH.into_iter().flat_map(|family| render::node(self, node, family)).collect())
    }

    fn render_service(&self, node: &NodePlan, service: &ServicePlan) -> Vec<(Key, Value)> {
        render::service(self, node, service)
    }

    fn own_table(&self) -> Option<&'static str> {
        Some(TABLE)
    }

    fn family_of(&self, key: &Key) -> Family {
        key.family()
    }

    fn is_shared(&self, key: &Key) -> bool {
        match key {
            Key::Chain(_, name) | Key::Set(_, name) => !affinity::is_of_one_port(name),
            Key::Element(_, set, _) => set.is_shared(),
        }
    }

    fn tracer<'a>(&'a self, objects: &'a Objects<Self>, foreign: &'a dyn Rules, node: &'a NodePlan) -> Tracer<'a> {
        Box::new(trace::tracer(&objects.0, foreign, node))
    }
}
