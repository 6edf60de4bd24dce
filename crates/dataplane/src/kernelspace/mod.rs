//! kernelspace mode: load balancers of the virtual switch of a Windows node, through the Host Networking Service (HNS).
//!
//! ```text
//!                       ┌─ endpoint of a pod of this node (made by the CNI plugin)
//! load balancer ────────┼─ remote endpoint ─► a pod of another node (made here)
//! (address, port)       └─ …
//! ```
//!
//! HNS exists on Windows alone. Everything but the calls themselves is the same on every system, so that questions about this
//! mode are answered everywhere, and its tests run on an HNS in memory.

mod abilities;
mod apply;
mod documents;
mod failures;
mod held;
mod in_memory;
mod kernel;
mod mode;
mod network;
mod objects;
mod places;
mod render;
mod settings;
mod sync;
mod trace;
mod watch;

use portolan_model::Family;
use portolan_plan::{NodePlan, ServicePlan};

pub use abilities::Abilities;
pub use in_memory::InMemory;
pub use mode::MODE;
pub use objects::{Balancer, Distribution, Front, Key, Role, Source, Stray, Target, Value};
pub use settings::Settings;

use crate::walk::Rules;
use crate::{Dataplane, Objects, Tracer};

/// As in `--proxy-mode`.
const NAME: &str = "kernelspace";

pub struct Kernelspace {
    pub settings: Settings,
}

impl Dataplane for Kernelspace {
    type Key = Key;
    type Value = Value;

    /// On an overlay, the endpoint of the source that load balancers use.
    fn render_node(&self, _: &NodePlan) -> Objects<Self> {
        let source = self.settings.source_vip.filter(|_| self.settings.is_overlay);
        Objects(source.map(|it| (Key::Endpoint(it), Value::Endpoint(Role::SourceAddress))).into_iter().collect())
    }

    fn render_service(&self, _: &NodePlan, service: &ServicePlan) -> Vec<(Key, Value)> {
        render::service(&self.settings, service)
    }

    fn family_of(&self, key: &Key) -> Family {
        key.family()
    }

    /// Services share endpoints, and the ports of a Service its health check.
    fn is_shared(&self, key: &Key) -> bool {
        matches!(key, Key::Endpoint(_) | Key::HealthCheck(_))
    }

    fn tracer<'a>(&'a self, objects: &'a Objects<Self>, _: &'a dyn Rules, node: &'a NodePlan) -> Tracer<'a> {
        Box::new(move |packet| trace::trace(objects, node, packet))
    }
}

/// One object per line, and the endpoints of a load balancer below it.
fn listing(objects: &Objects<Kernelspace>) -> String {
    objects.to_string()
}
