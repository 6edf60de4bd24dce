//! Round robin. The kernel counts turns in the rule that takes them, so that every Service port has a rule of its own: in a rule
//! for all Services with as many endpoints, those that are called in turn would always find the same number each.
//!
//! ```text
//! turns-cluster ─ recalls ─► turns/NAMESPACE/NAME/… ─ affinity/NAMESPACE/NAME/… ─► dnat
//!                                                   ─ endpoints, numgen inc ─────► dnat
//! ```

use std::sync::Arc;

use portolan_kernel::nftables::Verdict;
use portolan_plan::{Frontend, Pool, PortKey, Selection, ServicePlan};

use super::affinity::{chain, element, port_name, recall_rule};
use super::objects::{Key, Named, Value, regular};
use super::routes::{Shape, draw_rule, takes_turns};
use super::rules::Rule;
use super::sets::SetName;

const POOLS: [Pool; 2] = [Pool::Cluster, Pool::Local];
/// By kind of frontend and by pool.
const NAMES: [[&str; 2]; 2] = [["turns", "turns-local"], ["nodeport-turns", "nodeport-turns-local"]];

pub(super) fn turns(service: &ServicePlan, objects: &mut Vec<(Key, Value)>) {
    for frontend in &service.frontends {
        let is_drawn = |pool: &Pool| frontend.routes.use_pool(*pool) && takes_turns(service, *pool);
        for pool in POOLS.into_iter().filter(is_drawn) {
            let named = turns_chain(service, frontend, pool);
            let set = SetName::recalls(Shape::is_node_port(frontend.address), pool);
            objects.push(element(service, frontend, set, Verdict::Jump(named.0.clone())));
            objects.push(chain(service.key.family, named));
        }
    }
}

/// A client with session affinity keeps its endpoint, and takes no turn.
fn turns_chain(service: &ServicePlan, frontend: &Frontend, pool: Pool) -> Named {
    let is_node_port = Shape::is_node_port(frontend.address);
    let slots = service.pool(pool).len() as u32;
    let recall = service.affinity_seconds.map(|_| recall_rule(service, pool));
    let draw = draw_rule(service.key.family, is_node_port, pool, Selection::InTurn, slots);
    let rules: Vec<Rule> = recall.into_iter().chain([draw]).collect();
    (turns_name(&service.key, is_node_port, pool), regular(rules))
}

fn turns_name(key: &PortKey, is_node_port: bool, pool: Pool) -> Arc<str> {
    port_name(NAMES[usize::from(is_node_port)][pool as usize], key)
}
