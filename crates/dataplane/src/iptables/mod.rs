//! iptables mode: kube-proxy's own tables, chains, comments, marks and names, written by `iptables-restore`.
//!
//! ```text
//! nat PREROUTING ─┐
//! nat OUTPUT ─────┴► KUBE-SERVICES ─┬► KUBE-SVC-… ─► KUBE-SEP-… ─► DNAT
//!                    (one rule per  ├► KUBE-EXT-… ─► KUBE-SVC-…, KUBE-SVL-…
//!                     frontend)     ├► KUBE-FW-… ─► KUBE-EXT-…
//!                                   └► KUBE-NODEPORTS ─► KUBE-EXT-…
//! nat POSTROUTING ─► KUBE-POSTROUTING: masquerade what KUBE-MARK-MASQ has marked
//! filter INPUT, FORWARD, OUTPUT: refuse what should have been translated and was not
//! ```

mod apply;
mod chains;
mod counts;
#[doc(hidden)]
pub mod fuzz;
mod mode;
mod render;

use portolan_model::Family;
use portolan_plan::{NodePlan, ServicePlan};

pub use apply::IptablesKernel;
pub use mode::MODE;

use crate::tables::{self, Key, Value, refusals};
use crate::walk::Rules;
use crate::{Dataplane, Objects, Tracer};

/// As in `--proxy-mode`.
const NAME: &str = "iptables";

/// Objects as the programs of both families would print them.
pub fn listing(objects: &Objects<Iptables>) -> String {
    tables::listing(&objects.0)
}

/// The mode and its settings.
pub struct Iptables {
    /// The bit of the packet mark that means "masquerade".
    mark: u32,
    /// Whether packets that connection tracking calls invalid are dropped.
    drops_invalid: bool,
    /// Whether the kernel keeps kube-proxy's nfacct counters.
    counts: bool,
}

/// kube-proxy's counters: packets that connection tracking calls invalid, and connections to node ports at 127.0.0.1.
pub const INVALID_DROPPED: &str = "ct_state_invalid_dropped_pkts";
pub const LOOPBACK_ACCEPTED: &str = "localhost_nps_accepted_pkts";
pub const COUNTERS: [&str; 2] = [INVALID_DROPPED, LOOPBACK_ACCEPTED];

impl Iptables {
    /// `masquerade_bit` is 0 to 31; kube-proxy's default is 14.
    pub fn new(masquerade_bit: u8) -> Self {
        Self { mark: 1 << (masquerade_bit & 31), drops_invalid: true, counts: false }
    }

    /// For kernels that have nfacct.
    pub fn with_counters(mut self) -> Self {
        self.counts = true;
        self
    }

    /// For kernels with `nf_conntrack_tcp_be_liberal`, which call no packet invalid for its sequence number.
    pub fn without_dropping_invalid(mut self) -> Self {
        self.drops_invalid = false;
        self
    }
}

impl Dataplane for Iptables {
    type Key = Key;
    type Value = Value;

    fn render_node(&self, node: &NodePlan) -> Objects<Self> {
        Objects(Family::BOTH.into_iter().flat_map(|family| chains::node(self, family, node.family(family))).collect())
    }

    fn render_service(&self, node: &NodePlan, service: &ServicePlan) -> Vec<(Key, Value)> {
        render::service(self, node, service)
    }

    fn family_of(&self, key: &Key) -> Family {
        key.place().family
    }

    fn is_shared(&self, key: &Key) -> bool {
        refusals::is_shared(key)
    }

    fn renders_alike(&self, one: &NodePlan, other: &NodePlan) -> bool {
        one.treats_services_like(other) && one.is_large == other.is_large
    }

    fn tracer<'a>(&'a self, objects: &'a Objects<Self>, foreign: &'a dyn Rules, node: &'a NodePlan) -> Tracer<'a> {
        Box::new(tables::trace::tracer(objects.0.iter(), foreign, node))
    }

    fn is_own_chain(&self, chain: &str) -> bool {
        tables::trace::is_own_chain(chain)
    }
}
