//! Which tracked UDP flows a change makes stale.
//!
//! Connection tracking pins each UDP flow to one endpoint, and a client that keeps its source port never gets a new
//! one. When an endpoint or a Service is removed, its flows must be deleted; when a Service is added, so must the
//! flows that were not translated before. TCP is left alone: connections to a terminating endpoint may still finish.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use portolan_model::{Family, Protocol};

use crate::service::{FrontendAddress, ServicePlan};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFlow {
    pub family: Family,
    pub protocol: Protocol,
    pub frontend: FrontendAddress,
    pub target: StaleTarget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StaleTarget {
    /// Any destination.
    Anything,
    /// Only flows to this endpoint, which no longer serves.
    Endpoint(SocketAddr),
    /// Only flows that were never translated, because nothing served when they started.
    Untranslated,
}

/// The flows to delete when one Service port changes from `old` to `new`.
pub fn stale_flows(old: Option<&ServicePlan>, new: Option<&ServicePlan>) -> Vec<StaleFlow> {
    let Some(plan) = new.or(old) else { return Vec::new() };
    if plan.protocol() != Protocol::Udp {
        return Vec::new();
    }
    let stale = |frontend, target| StaleFlow { family: plan.key.family, protocol: Protocol::Udp, frontend, target };
    let (before, after) = (addresses(old), addresses(new));
    let mut flows: Vec<StaleFlow> =
        before.difference(&after).map(|frontend| stale(*frontend, StaleTarget::Anything)).collect();
    flows.extend(after.difference(&before).map(|frontend| stale(*frontend, StaleTarget::Untranslated)));
    let targets = changed_targets(old, new);
    for frontend in before.intersection(&after) {
        flows.extend(targets.iter().map(|target| stale(*frontend, *target)));
    }
    flows
}

fn addresses(plan: Option<&ServicePlan>) -> BTreeSet<FrontendAddress> {
    plan.iter().flat_map(|plan| &plan.frontends).map(|frontend| frontend.address).collect()
}

fn serving(plan: Option<&ServicePlan>) -> BTreeSet<SocketAddr> {
    plan.iter().flat_map(|plan| plan.serving()).map(|endpoint| endpoint.socket()).collect()
}

fn changed_targets(old: Option<&ServicePlan>, new: Option<&ServicePlan>) -> Vec<StaleTarget> {
    let (before, after) = (serving(old), serving(new));
    let mut targets: Vec<StaleTarget> = before.difference(&after).map(|gone| StaleTarget::Endpoint(*gone)).collect();
    if before.is_empty() && !after.is_empty() {
        targets.push(StaleTarget::Untranslated);
    }
    targets
}
