//! Session affinity. It belongs to a Service port: all its frontends share one map from client to endpoint for each
//! pool, so that a client has the same endpoint through all of them, and a flood at one Service fills no other's map.
//!
//! ```text
//! sticky pool chains ─ recalls ─► recall/NAMESPACE/NAME/… ─ affinity/NAMESPACE/NAME/… ─► dnat
//!                                 (returns if the client is unknown: a draw follows)
//! learn ─ learners ─► learn/NAMESPACE/NAME/… ─ members ─► updates affinity/NAMESPACE/NAME/…
//! ```

use std::sync::Arc;

use portolan_kernel::nftables::{ChainKind, HookPoint, Verdict};
use portolan_model::{Family, ServiceName, ServicePortName};
use portolan_plan::{Frontend, Pool, PortKey, ServicePlan};

use super::elements::ElementKey;
use super::fields::Field;
use super::objects::{Key, Named, Value, base, regular};
use super::routes::{Shape, takes_turns};
use super::rules::{Rule, rule};
use super::sets::{SetName, clients_spec};
use crate::tables::names::digest_of;

type Object = (Key, Value);

const LEARN: &str = "learn";
/// Learning follows translation at once.
const LEARN_PRIORITY: i32 = -90;
const POOLS: [Pool; 2] = [Pool::Cluster, Pool::Local];

/// All objects of session affinity of a Service port.
pub(super) fn affinity(service: &ServicePlan, objects: &mut Vec<Object>) {
    let Some(seconds) = service.affinity_seconds.filter(|_| used_pools(service).next().is_some()) else { return };
    let family = service.key.family;
    let learn = learn_chain(service, seconds);
    for frontend in &service.frontends {
        objects.push(learner(service, frontend, &learn.0));
        recallers(service, frontend, objects);
    }
    for pool in used_pools(service) {
        objects.push((Key::Set(family, clients_map(&service.key, pool)), Value::Set(Arc::new(clients_spec(family)))));
        objects.extend((!takes_turns(service, pool)).then(|| chain(family, recall_chain(service, pool))));
        members(service, pool, objects);
    }
    objects.extend(learning_chains(family).into_iter().chain([learn]).map(|named| chain(family, named)));
}

pub(super) fn used_pools(service: &ServicePlan) -> impl Iterator<Item = Pool> {
    let is_used = |pool: &Pool| service.frontends.iter().any(|frontend| frontend.routes.use_pool(*pool));
    POOLS.into_iter().filter(is_used)
}

pub(super) fn chain(family: Family, (name, chain): Named) -> Object {
    (Key::Chain(family, name), Value::Chain(Arc::new(chain)))
}

/// The frontend's clients are recorded by the chain of its Service port.
fn learner(service: &ServicePlan, frontend: &Frontend, chain: &Arc<str>) -> Object {
    let is_node_port = Shape::is_node_port(frontend.address);
    let set = if is_node_port { SetName::NodePortLearners } else { SetName::Learners };
    element(service, frontend, set, Verdict::Goto(chain.clone()))
}

fn recallers(service: &ServicePlan, frontend: &Frontend, objects: &mut Vec<Object>) {
    let set = |pool| SetName::recalls(Shape::is_node_port(frontend.address), pool);
    let is_recalled = |pool: &Pool| frontend.routes.use_pool(*pool) && !takes_turns(service, *pool);
    for pool in POOLS.into_iter().filter(is_recalled) {
        let verdict = Verdict::Jump(recall_name(&service.key, pool));
        objects.push(element(service, frontend, set(pool), verdict));
    }
}

pub(super) fn element(service: &ServicePlan, frontend: &Frontend, set: SetName, verdict: Verdict) -> Object {
    let key = ElementKey::frontend(frontend.address, service.protocol());
    (Key::Element(service.key.family, set, key), Value::Verdict(verdict.into()))
}

/// Sends a known client to its endpoint.
fn recall_chain(service: &ServicePlan, pool: Pool) -> Named {
    (recall_name(&service.key, pool), regular(vec![recall_rule(service, pool)]))
}

pub(super) fn recall_rule(service: &ServicePlan, pool: Pool) -> Rule {
    rule(service.key.family).translate(&[Field::Source], None, &clients_map(&service.key, pool))
}

/// Keeps a client with its endpoint for this long. Only endpoints of the pool are recorded: a node port is known here by
/// its number alone, which another address may have for something else, and an endpoint may have left the pool since
/// the packet was translated.
fn learn_chain(service: &ServicePlan, seconds: u32) -> Named {
    let family = service.key.family;
    let learn = |pool| {
        let builder = rule(family).member_of(pool_number(&service.key, pool));
        builder.learn(&clients_map(&service.key, pool), seconds)
    };
    (port_name(LEARN, &service.key), regular(used_pools(service).map(learn).collect()))
}

fn members(service: &ServicePlan, pool: Pool, objects: &mut Vec<Object>) {
    let number = pool_number(&service.key, pool);
    let member =
        |address, port| Key::Element(service.key.family, SetName::Members, ElementKey::Member(address, port, number));
    objects.extend(service.pool(pool).iter().map(|it| (member(it.address, it.port), Value::Member)));
}

/// The chains that lead to those of Service ports; they exist while some Service has affinity.
fn learning_chains(family: Family) -> Vec<Named> {
    let learn: Arc<str> = LEARN.into();
    let lookups = vec![
        rule(family)
            .verdict_map(&[Field::OriginalDestination, Field::Protocol, Field::OriginalPort], SetName::Learners),
        rule(family).verdict_map(&[Field::Protocol, Field::OriginalPort], SetName::NodePortLearners),
    ];
    let hooked = |point| {
        let jump = rule(family).new_connection().translated().jump(&learn);
        base(ChainKind::Filter, point, LEARN_PRIORITY, vec![jump])
    };
    vec![
        (learn.clone(), regular(lookups)),
        ("learn-prerouting".into(), hooked(HookPoint::Prerouting)),
        ("learn-output".into(), hooked(HookPoint::Output)),
    ]
}

const CLIENTS: [&str; 2] = ["affinity", "affinity-local"];

/// The map from the clients of a pool to their endpoints.
pub(super) fn clients_map(key: &PortKey, pool: Pool) -> Arc<str> {
    port_name(CLIENTS[pool as usize], key)
}

/// Whether a set of this name is such a map.
pub(super) fn is_clients_map(name: &str) -> bool {
    name.split_once('/').is_some_and(|(prefix, _)| CLIENTS.contains(&prefix))
}

/// Whether a chain or set of this name belongs to one Service port.
pub(super) fn is_of_one_port(name: &str) -> bool {
    name.contains('/')
}

fn recall_name(key: &PortKey, pool: Pool) -> Arc<str> {
    port_name(["recall", "recall-local"][pool as usize], key)
}

/// The kernel's limit for a name is 255 bytes.
const LONGEST_NAME: usize = 220;

/// Names of Services, namespaces and ports have no slash, so that this one is unique. One that `nft` could not parse or the
/// kernel not hold, which no API server has, is replaced with a digest.
pub(super) fn port_name(prefix: &str, key: &PortKey) -> Arc<str> {
    let ServicePortName { service: ServiceName { namespace, name }, port, protocol } = &*key.name;
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.');
    let are_plain = [namespace, name, port].into_iter().all(|part| part.chars().all(is_plain));
    let full = format!("{namespace}/{name}/{protocol}{}{port}", if port.is_empty() { "" } else { "/" });
    let full = if are_plain && full.len() <= LONGEST_NAME { full } else { digest_of(&full) };
    format!("{prefix}/{full}").into()
}

/// Identifies a pool in the set `members`: a hash (FNV-1a) of the name, because a number must not depend on what other
/// Services there are. If two pools had the same, each would only accept the endpoints of the other, too.
fn pool_number(key: &PortKey, pool: Pool) -> u32 {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    clients_map(key, pool).bytes().fold(0x811c_9dc5, hash) >> 1
}
