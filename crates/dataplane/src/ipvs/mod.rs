//! ipvs mode: kube-proxy's own sets, chains and device, and virtual servers of IPVS.
//!
//! ```text
//! nat PREROUTING, OUTPUT ─► KUBE-SERVICES: marks packets to masquerade, by IP sets
//! filter INPUT ─► source ranges, Services without local endpoints, ports that no Service has
//! IPVS: a virtual server for each address and port ─► one of its destinations, by its scheduler
//! nat POSTROUTING ─► KUBE-POSTROUTING: masquerades marked packets and hairpin connections
//! ```
//!
//! All addresses of Services are on the device `kube-ipvs0`, so that packets to them reach the hooks of IPVS. The number
//! of rules does not depend on Services.

mod apply;
mod chains;
mod counts;
mod drain;
mod leftovers;
mod listing;
mod mode;
mod objects;
mod prepare;
mod read;
mod render;
mod scheduling;
mod sets;
mod trace;
mod virtual_servers;
mod watch;
mod weights;

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::{NodePlan, ServicePlan};

pub use apply::IpvsKernel;
pub use listing::listing;
pub use mode::MODE;
pub use objects::{Key, Server, Value};
pub use prepare::{IpvsSettings, prepare, schedulers};
pub use sets::{SetKind, SetName};

use crate::walk::Rules;
use crate::{Dataplane, Objects, Tracer};

/// As in `--proxy-mode`.
const NAME: &str = "ipvs";
/// The device that holds the addresses of all Services.
pub const DEVICE: &str = "kube-ipvs0";
/// kube-proxy's default.
pub const DEFAULT_SCHEDULER: &str = "rr";

/// The mode and its settings.
#[derive(Clone)]
pub struct Ipvs {
    /// The bit of the packet mark that means "masquerade".
    mark: u32,
    scheduler: Arc<str>,
    /// The schedulers that the kernel offers, if known. A Service that requests another one gets the default.
    offered: Option<BTreeSet<String>>,
}

impl Ipvs {
    /// `masquerade_bit` is 0 to 31; kube-proxy's default is 14.
    pub fn new(masquerade_bit: u8, scheduler: &str) -> Self {
        let scheduler = if scheduler.is_empty() { DEFAULT_SCHEDULER } else { scheduler };
        Self { mark: 1 << (masquerade_bit & 31), scheduler: scheduler.into(), offered: None }
    }

    /// Only these schedulers are used.
    pub fn offering(mut self, schedulers: BTreeSet<String>) -> Self {
        self.offered = Some(schedulers);
        self
    }
}

impl Dataplane for Ipvs {
    type Key = Key;
    type Value = Value;

    fn render_node(&self, node: &NodePlan) -> Objects<Self> {
        let sets = SetName::all().map(|name| (Key::Set(name), Value::Set(name.kind.holds())));
        let rules = Family::BOTH.into_iter().flat_map(|family| chains::node(self, node, family));
        let rules = rules.map(|(key, value)| (Key::Rules(key), Value::Rules(value)));
        Objects(sets.chain(rules).chain([(Key::Device, Value::Present)]).collect())
    }

    fn render_service(&self, node: &NodePlan, service: &ServicePlan) -> Vec<(Key, Value)> {
        render::service(self, node, service).into_iter().collect()
    }

    /// The device counts as IPv4, which every node has.
    fn family_of(&self, key: &Key) -> Family {
        match key {
            Key::Set(name) | Key::Entry(name, _) => name.family,
            Key::Rules(key) => key.place().family,
            Key::Server(server) | Key::Destination(server, _) => Family::of(server.address.ip()),
            Key::Device => Family::V4,
            Key::Address(address) => Family::of(*address),
        }
    }

    /// Addresses, and endpoints with hairpin connections, can belong to several Services.
    fn is_shared(&self, key: &Key) -> bool {
        match key {
            Key::Address(_) => true,
            Key::Entry(name, _) => {
                matches!(name.kind, SetKind::LoopBack | SetKind::IpvsIps | SetKind::HealthCheckNodePort)
            }
            _ => false,
        }
    }

    fn tracer<'a>(&'a self, objects: &'a Objects<Self>, foreign: &'a dyn Rules, node: &'a NodePlan) -> Tracer<'a> {
        Box::new(trace::tracer(objects, foreign, node))
    }

    fn is_own_chain(&self, chain: &str) -> bool {
        crate::tables::trace::is_own_chain(chain)
    }
}
