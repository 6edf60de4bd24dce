//! userspace mode: rules redirect connections to the daemon, which picks an endpoint, connects, and tries another one
//! if that does not answer.
//!
//! ```text
//! nat PREROUTING ─► KUBE-PORTALS-CONTAINER ─┬► REDIRECT ─┐
//!                   └► KUBE-NODEPORT-CONTAINER ──────────┤   a listener per Service
//! nat OUTPUT ─────► KUBE-PORTALS-HOST ──────┬► DNAT ─────┼─► port and pool ─► an endpoint
//!                   └► KUBE-NODEPORT-HOST ───────────────┘
//! filter INPUT, FORWARD, OUTPUT: refuse what should have been redirected and was not
//! ```

mod apply;
mod chains;
mod counts;
mod listeners;
mod mode;
mod objects;
mod ports;
mod render;
mod trace;

use portolan_model::Family;
use portolan_plan::{NodePlan, ServicePlan};

pub use apply::UserspaceKernel;
pub use listeners::Listeners;
pub use mode::MODE;
pub use objects::{Key, Listener, Targets, Value};
pub use portolan_relay::{Counters, Limits as RelayLimits, NamedSocket, receive_sockets, send_sockets};

use crate::tables::{self, Contents, refusals};
use crate::walk::Rules;
use crate::{Dataplane, Objects, Tracer};

/// As in `--proxy-mode`.
const NAME: &str = "userspace";

pub struct Userspace;

impl Dataplane for Userspace {
    type Key = Key;
    type Value = Value;

    fn render_node(&self, node: &NodePlan) -> Objects<Self> {
        let contents = Family::BOTH.into_iter().flat_map(|family| chains::node(family, node.family(family)));
        Objects(contents.map(|(key, value)| (Key::Table(key), Value::Table(value))).collect())
    }

    fn render_service(&self, node: &NodePlan, service: &ServicePlan) -> Vec<(Key, Value)> {
        render::service(node, service)
    }

    fn family_of(&self, key: &Key) -> Family {
        match key {
            Key::Table(key) => key.place().family,
            Key::Listener(listener) => listener.family,
        }
    }

    fn is_shared(&self, key: &Key) -> bool {
        matches!(key, Key::Table(key) if refusals::is_shared(key))
    }

    fn tracer<'a>(&'a self, objects: &'a Objects<Self>, foreign: &'a dyn Rules, node: &'a NodePlan) -> Tracer<'a> {
        Box::new(trace::tracer(objects, foreign, node))
    }

    fn is_own_chain(&self, chain: &str) -> bool {
        tables::trace::is_own_chain(chain)
    }
}

/// Objects in the format of `iptables-save`, for both families, and the listeners that they name.
pub fn listing(objects: &Objects<Userspace>) -> String {
    let mut contents = Contents::new();
    let mut listeners = String::from("# listeners\n");
    for (key, value) in &objects.0 {
        match (key, value) {
            (Key::Table(key), Value::Table(value)) => _ = contents.insert(key.clone(), value.clone()),
            _ => listeners += &format!("{key}{value}\n"),
        }
    }
    tables::listing(&contents) + &listeners
}
