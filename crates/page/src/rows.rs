//! All Services in short.

use std::collections::BTreeSet;

use portolan_model::{Service, ServiceKind, ServiceName, TrafficPolicy};
use portolan_plan::{Plan, Reason, ServicePlan, Verdict};
use serde::{Deserialize, Serialize};

use crate::known::Known;

/// Name, type, address, ports, ready and all endpoints, state, and details about the state. An array in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row(pub String, pub String, pub String, pub String, pub usize, pub usize, pub String, pub String);

const COLUMNS: [&str; 8] = ["name", "type", "address", "ports", "ready", "total", "state", "detail"];

#[derive(Clone, Debug, Serialize)]
pub struct Rows {
    pub change: u64,
    pub columns: [&'static str; 8],
    pub services: Vec<Row>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub services: usize,
    pub service_ports: usize,
    pub endpoints: usize,
    pub without_endpoints: usize,
}

impl Size {
    pub fn of(plan: &Plan) -> Self {
        let mut size = Self { services: plan.facts().services.len(), ..Self::default() };
        size.service_ports = plan.services.len();
        let slices = plan.facts().slices.values().flat_map(|slices| slices.0.iter());
        size.endpoints = slices.map(|slice| slice.endpoints.len()).sum();
        let refused: BTreeSet<&ServiceName> =
            plan.services.values().filter(|port| has_none(port)).map(|port| &port.key.name.service).collect();
        size.without_endpoints = refused.len();
        size
    }
}

impl Known<'_> {
    pub fn rows(&self) -> Rows {
        let services = self.plan.facts().services.values().map(|service| row(self.plan, service)).collect();
        Rows { change: self.change, columns: COLUMNS, services }
    }

    /// The rows of some Services, and the names of those that are gone.
    pub fn rows_of(&self, names: impl IntoIterator<Item = String>) -> (Vec<Row>, Vec<String>) {
        let (mut rows, mut gone) = (Vec::new(), Vec::new());
        for text in names {
            match self.find(&text).ok().and_then(|name| self.plan.facts().services.get(&name)) {
                Some(service) => rows.push(row(self.plan, service)),
                None => gone.push(text),
            }
        }
        (rows, gone)
    }
}

fn row(plan: &Plan, service: &Service) -> Row {
    let (ready, total) = count(plan, &service.name);
    let (state, detail) = state(plan, service);
    let address = service.cluster_ips.first().map_or(String::new(), ToString::to_string);
    let ports: Vec<String> = service.ports.iter().map(port_text).collect();
    Row(service.name.to_string(), kind(service).into(), address, ports.join(","), ready, total, state.into(), detail)
}

/// `http:80:30080/TCP`.
fn port_text(port: &portolan_model::ServicePort) -> String {
    let name = if port.name.is_empty() { String::new() } else { format!("{}:", port.name) };
    let node_port = port.node_port.map_or(String::new(), |number| format!(":{number}"));
    format!("{name}{}{node_port}/{}", port.port, port.protocol)
}

pub(crate) fn kind(service: &Service) -> &'static str {
    match service.kind {
        ServiceKind::ExternalName => "ExternalName",
        _ if service.cluster_ips.is_empty() => "Headless",
        ServiceKind::ClusterIp => "ClusterIP",
        ServiceKind::NodePort => "NodePort",
        ServiceKind::LoadBalancer => "LoadBalancer",
    }
}

/// Ready endpoints, and all of them. One in several slices, for several ports or families, counts by its address.
fn count(plan: &Plan, name: &ServiceName) -> (usize, usize) {
    let slices = plan.facts().slices.get(name).into_iter().flat_map(|slices| slices.0.iter());
    let endpoints = slices.filter(|slice| !slice.is_for_names_only).flat_map(|slice| &slice.endpoints);
    endpoints.fold((0, 0), |(ready, total), it| (ready + usize::from(it.conditions.ready), total + 1))
}

fn state(plan: &Plan, service: &Service) -> (&'static str, String) {
    let ports: Vec<&ServicePlan> = plan.port_plans(&service.name).map(|(_, port)| &**port).collect();
    let conflict = ports.iter().flat_map(|port| &port.conflicts).next();
    if ports.is_empty() {
        let to = service.external_name.as_ref().map_or(String::new(), |name| format!("to {name}"));
        return ("no-rules", to);
    }
    if let Some(conflict) = conflict {
        return ("conflict", format!("{} belongs to {}", conflict.address, conflict.holder));
    }
    if ports.iter().any(|port| has_none(port)) {
        return ("no-endpoints", String::new());
    }
    let quarantined: usize = ports.iter().map(|port| port.quarantined.len()).sum();
    match (ports.iter().any(|port| refuses(port, Reason::NoLocalEndpoints)), quarantined) {
        (true, _) => ("no-local-endpoints", "the traffic policy is Local".into()),
        (false, 0) => ("ok", String::new()),
        (false, count) => ("quarantine", format!("{count} do not answer")),
    }
}

fn has_none(port: &ServicePlan) -> bool {
    refuses(port, Reason::NoEndpoints)
}

fn refuses(port: &ServicePlan, reason: Reason) -> bool {
    let refuses =
        |verdict| matches!(verdict, Verdict::Refuse(refusal) if portolan_plan::Refusal::reason(refusal) == reason);
    port.frontends
        .iter()
        .flat_map(|it| [it.routes.pod, it.routes.node, it.routes.outside])
        .any(|it| refuses(it.verdict))
}

pub(crate) fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}
