//! All endpoints of a Service port, also those that get no connections, and why.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use portolan_model::{Observation, Slice, SliceEndpoint};
use portolan_plan::{Endpoint, ServicePlan};

use super::behind::{Behind, ObjectName};
use super::parts::{EndpointAnswer, ServiceAnswer, ShareAnswer};
use super::ports::{Context, Pools};
use crate::known::Known;

/// Endpoints in one picture.
const MOST_ENDPOINTS: usize = 500;

type Listed<'a> = BTreeMap<SocketAddr, (&'a Slice, &'a SliceEndpoint)>;

pub(super) fn add(known: &Known<'_>, context: &Context<'_>, pools: &Pools, answer: &mut ServiceAnswer) {
    let mut ids = BTreeMap::new();
    for (socket, (slice, endpoint)) in listed(known, context) {
        if answer.endpoints.len() >= MOST_ENDPOINTS {
            answer.omitted_endpoints += 1;
            continue;
        }
        let id = format!("endpoint:{}", answer.endpoints.len());
        ids.insert(socket, id.clone());
        answer.endpoints.push(described(known, context, slice, endpoint, socket, id));
    }
    for (pool, id) in pools {
        let slots = context.port.pool(*pool).len() as f64;
        for (endpoint, count) in context.port.weighted(*pool) {
            let Some(endpoint) = ids.get(&endpoint.socket()) else { continue };
            let (number, share) = (answer.shares.len(), f64::from(count) / slots);
            let (pool, endpoint) = (id.clone(), endpoint.clone());
            answer.shares.push(ShareAnswer {
                id: format!("share:{number}"),
                pool,
                endpoint,
                share,
                behind: Vec::new(),
            });
        }
    }
}

/// The endpoints that slices have for the port. One that is not terminating hides one that is.
fn listed<'a>(known: &Known<'a>, context: &Context<'_>) -> Listed<'a> {
    let (key, mut listed) = (&context.port.key, Listed::new());
    let slices = known.plan.facts().slices.get(&key.name.service).into_iter().flat_map(|slices| slices.0.iter());
    for slice in slices.filter(|slice| slice.family == key.family && !slice.is_for_names_only) {
        let ports = slice.ports.iter().filter(|it| it.name == key.name.port && it.protocol == key.name.protocol);
        for number in ports.map(|port| port.port) {
            for endpoint in &slice.endpoints {
                let place = listed.entry(SocketAddr::new(endpoint.address, number)).or_insert((&**slice, endpoint));
                if !endpoint.conditions.terminating {
                    *place = (&**slice, endpoint);
                }
            }
        }
    }
    listed
}

fn described(
    known: &Known<'_>,
    context: &Context<'_>,
    slice: &Slice,
    endpoint: &SliceEndpoint,
    socket: SocketAddr,
    id: String,
) -> EndpointAnswer {
    let namespace = &context.service.name.namespace;
    let observed = known.plan.facts().observed.get(&context.service.name);
    let observation = observed.map_or(Observation::USUAL, |it| it.of(socket));
    let (state, because) = state(context.port, endpoint, socket, observation);
    let usage = (known.usage)(&context.port.key, socket);
    EndpointAnswer {
        id,
        port: context.id.to_owned(),
        address: socket.to_string(),
        pod: endpoint.pod.as_ref().map(|pod| format!("{namespace}/{pod}")),
        node: endpoint.node().map(ToString::to_string),
        zone: endpoint.zone().map(ToString::to_string),
        is_local: endpoint.node() == Some(&known.plan.facts().node.name),
        ready: endpoint.conditions.ready,
        serving: endpoint.conditions.serving,
        terminating: endpoint.conditions.terminating,
        weight: endpoint.weight.number(),
        state,
        because,
        connections: usage.map(|it| it.connections),
        bytes: usage.map(|it| it.bytes),
        behind: behind(namespace, slice, endpoint),
    }
}

fn behind(namespace: &str, slice: &Slice, endpoint: &SliceEndpoint) -> Vec<Behind> {
    let object = ObjectName::new("EndpointSlice", namespace, &slice.name);
    let pod = endpoint.pod.as_ref().map(|pod| ObjectName::new("Pod", namespace, pod));
    let address = endpoint.address.to_string();
    let conditions = endpoint.conditions;
    let value =
        format!("ready {}, serving {}, terminating {}", conditions.ready, conditions.serving, conditions.terminating);
    let addresses = Behind::text(object.clone(), "endpoints", "endpoints[].addresses", &address);
    let conditions = Behind::text(object, "endpoints", "endpoints[].conditions", &address).with_value(value);
    vec![addresses.or_in(pod.clone(), "status"), conditions.or_in(pod, "status")]
}

fn state(port: &ServicePlan, it: &SliceEndpoint, socket: SocketAddr, seen: Observation) -> (&'static str, String) {
    let is_in = |pool: &[Endpoint]| pool.iter().any(|endpoint| endpoint.socket() == socket);
    let part = |thousandths: u16| format!("{} % of its weight counts", f64::from(thousandths) / 10.0);
    match () {
        () if is_in(&port.quarantined) => ("quarantined", "it does not answer".into()),
        () if is_in(&port.cluster) || is_in(&port.local) => match seen {
            Observation { warmth, .. } if warmth < Observation::WHOLE => ("warming up", part(warmth)),
            Observation { room, .. } if room < Observation::WHOLE => ("loaded", part(room)),
            _ if it.conditions.terminating => ("terminating", "it serves because no endpoint is ready".into()),
            _ => ("in use", String::new()),
        },
        () if it.conditions.terminating => ("terminating", "it keeps its connections, and gets no new ones".into()),
        () if !it.conditions.ready => ("not ready", "its pod is not ready".into()),
        () if is_in(&port.draining) => ("draining", "not selected by topology, traffic policy or weight".into()),
        () => ("not used", "no address of the Service leads to it".into()),
    }
}
