//! Endpoints of a Service port that do not get what others get, and why.

use portolan_model::{Observation, Observed};
use portolan_plan::{Endpoint, Plan, Pool, ServicePlan};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointCondition {
    pub endpoint: String,
    /// `quarantined`, `draining`, `warming up`, `loaded` or `silent`.
    pub condition: String,
    pub because: String,
}

pub(crate) fn conditions(plan: &Plan, port: &ServicePlan) -> Vec<EndpointCondition> {
    let observed = plan.facts().observed.get(&port.key.name.service);
    let left_out = port.draining.iter().map(|endpoint| left_out(port, endpoint));
    let reduced = observed.into_iter().flat_map(|observed| reduced(port, observed));
    left_out.chain(reduced).collect()
}

fn left_out(port: &ServicePlan, endpoint: &Endpoint) -> EndpointCondition {
    if port.quarantined.contains(endpoint) {
        return condition(endpoint, "quarantined", "it does not answer".into());
    }
    condition(endpoint, "draining", "it is terminating, not selected by the traffic policy, or has weight 0".into())
}

/// Those in a pool whose weight counts in part.
fn reduced(port: &ServicePlan, observed: &Observed) -> Vec<EndpointCondition> {
    let mut endpoints = [Pool::Cluster, Pool::Local].map(|pool| port.pool(pool)).concat();
    endpoints.sort_unstable();
    endpoints.dedup();
    let known = endpoints.iter().map(|endpoint| (endpoint, observed.of(endpoint.socket())));
    known.flat_map(|(endpoint, observation)| partly(endpoint, observation)).collect()
}

fn partly(endpoint: &Endpoint, observation: Observation) -> Vec<EndpointCondition> {
    let Observation { warmth, room, silent } = observation;
    let share = |thousandths: u16| format!("{} % of its weight counts", f64::from(thousandths) / 10.0);
    let warming = (warmth < Observation::WHOLE).then(|| condition(endpoint, "warming up", share(warmth)));
    let loaded = (room < Observation::WHOLE).then(|| condition(endpoint, "loaded", share(room)));
    let spared = silent.map(|_| {
        let because = "it does not answer, and neither do so many others that it is not left out";
        condition(endpoint, "silent", because.into())
    });
    warming.into_iter().chain(loaded).chain(spared).collect()
}

fn condition(endpoint: &Endpoint, condition: &str, because: String) -> EndpointCondition {
    EndpointCondition { endpoint: endpoint.socket().to_string(), condition: condition.into(), because }
}

/// `1 quarantined`, one line for each condition.
pub(crate) fn summary(conditions: &[EndpointCondition]) -> Vec<String> {
    let mut names: Vec<&str> = conditions.iter().map(|it| &*it.condition).filter(|name| *name != "draining").collect();
    names.sort_unstable();
    names.chunk_by(|one, other| one == other).map(|same| format!("{} {}", same.len(), same[0])).collect()
}
