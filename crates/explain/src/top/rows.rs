//! What the plan says about one row.

use portolan_dataplane::traffic::Usage;
use portolan_model::{Protocol, ServicePortName, SliceEndpoint};
use portolan_plan::{Origin, Plan, Reason, ServicePlan, Verdict};

use super::{TopRow, Totals};

/// The name of a row. Only ports other than TCP name their protocol.
pub(super) fn identity(name: &ServicePortName) -> String {
    match name.protocol {
        Protocol::Tcp => name.to_string(),
        protocol => format!("{name}/{protocol}"),
    }
}

/// The plans of a port, one for each family.
pub(super) fn families<'a>(plan: &'a Plan, name: &ServicePortName) -> Vec<&'a ServicePlan> {
    let ports = plan.port_plans(&name.service).filter(|(key, _)| *key.name == *name);
    ports.map(|(_, port)| &**port).collect()
}

/// A row without traffic; `None` if no such port is planned.
pub(super) fn planned(plan: &Plan, name: &ServicePortName) -> Option<TopRow> {
    let families = families(plan, name);
    if families.is_empty() {
        return None;
    }
    let (ready, endpoints) = slice_endpoints(plan, name)
        .fold((0, 0), |(ready, all), endpoint| (ready + u32::from(endpoint.conditions.ready), all + 1));
    Some(TopRow {
        service: identity(name),
        open: (name.protocol == Protocol::Tcp).then_some(0),
        ready,
        endpoints,
        quarantined: families.iter().map(|port| port.quarantined.len() as u32).sum(),
        refuses: families.iter().filter_map(|port| refusal(port)).min().map(|reason| reason.to_string()),
        ..TopRow::default()
    })
}

/// All that the slices list for the port.
pub(super) fn slice_endpoints<'a>(
    plan: &'a Plan,
    name: &'a ServicePortName,
) -> impl Iterator<Item = &'a SliceEndpoint> {
    let slices = plan.facts().slices.get(&name.service).into_iter().flat_map(|slices| &slices.0);
    let of_port = |port: &portolan_model::SlicePort| port.name == name.port && port.protocol == name.protocol;
    let slices = slices.filter(move |slice| !slice.is_for_names_only && slice.ports.iter().any(of_port));
    slices.flat_map(|slice| &slice.endpoints)
}

/// The first reason for which a frontend refuses clients of any origin.
fn refusal(port: &ServicePlan) -> Option<Reason> {
    let routes = port.frontends.iter().flat_map(|it| Origin::ALL.map(|origin| it.routes.from(origin)));
    let reasons = routes.filter_map(|route| match route.verdict {
        Verdict::Refuse(refusal) => Some(refusal.reason()),
        Verdict::Forward(_) => None,
    });
    reasons.min()
}

impl Totals {
    pub(super) fn add(&mut self, usage: &Usage) {
        self.connections += usage.connections;
        self.bytes_from_clients += usage.requests.bytes;
        self.bytes_to_clients += usage.replies.bytes;
    }
}
