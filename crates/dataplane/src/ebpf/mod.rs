//! ebpf mode: hooks translate the destination of a socket once, when it connects or sends, so that its packets cost nothing
//! more. Everything that a hook is not certain about it passes on unchanged, and the complete rules of nf_tables behind it
//! decide. A missing program, entry or capability costs microseconds, and no connection.
//!
//! ```text
//! connect(2), sendmsg(2) ─► hook ─ frontends ─► route by owner ─► endpoints ─► the socket's destination is the endpoint
//!                             │ (own: node ports)
//!                             └─► passed on ─► the rules, as in nftables mode
//! ```

mod attached;
mod claim;
mod clients;
mod codec;
mod counts;
mod former;
mod hook_place;
mod hooks;
mod kernel;
pub mod machine;
mod mode;
mod namespaces;
mod objects;
mod pins;
mod places;
mod programs;
mod redirect;
mod render;
mod requirements;
mod retired;
mod trace;
mod watch;

use portolan_model::Family;
use portolan_plan::{NodePlan, ServicePlan};

pub use kernel::EbpfKernel;
pub use mode::MODE;
pub use objects::{Frontend, FrontendKey, Key, MapName, PoolName, Route, Value};

use crate::nft::{self, Nftables};
use crate::walk::Rules;
use crate::{Dataplane, Objects, Tracer};

/// As in `--proxy-mode`.
const NAME: &str = "ebpf";

/// The mode: the rules, and entries of the hooks' maps on top of them.
pub struct Ebpf {
    rules: Nftables,
}

impl Ebpf {
    pub fn new(rules: Nftables) -> Self {
        Self { rules }
    }
}

impl Dataplane for Ebpf {
    type Key = Key;
    type Value = Value;

    fn render_node(&self, node: &NodePlan) -> Objects<Self> {
        Objects(with_rules(self.rules.render_node(node).0, render::node(node)).collect())
    }

    fn render_service(&self, node: &NodePlan, service: &ServicePlan) -> Vec<(Key, Value)> {
        with_rules(self.rules.render_service(node, service), render::service(node, service)).collect()
    }

    fn family_of(&self, key: &Key) -> Family {
        key.family()
    }

    fn is_shared(&self, key: &Key) -> bool {
        match key {
            Key::Rule(key) => self.rules.is_shared(key),
            // All ports of a Service have its address.
            Key::Frontend(FrontendKey::Address(_)) => true,
            _ => false,
        }
    }

    fn renders_alike(&self, one: &NodePlan, other: &NodePlan) -> bool {
        self.rules.renders_alike(one, other)
    }

    fn tracer<'a>(&'a self, objects: &'a Objects<Self>, foreign: &'a dyn Rules, node: &'a NodePlan) -> Tracer<'a> {
        Box::new(trace::tracer(objects, foreign, node))
    }

    fn own_table(&self) -> Option<&'static str> {
        self.rules.own_table()
    }
}

fn with_rules(
    rules: impl IntoIterator<Item = (nft::Key, nft::Value)>,
    entries: impl IntoIterator<Item = (Key, Value)>,
) -> impl Iterator<Item = (Key, Value)> {
    let rules = rules.into_iter().map(|(key, value)| (Key::Rule(key), Value::Rule(value)));
    rules.chain(entries)
}
