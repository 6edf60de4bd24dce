//! Which Services does this node serve, and how?

use std::collections::BTreeMap;

use portolan_model::{Service, ServicePortName, TrafficPolicy};
use portolan_plan::{Plan, Pool, ServicePlan};
use serde::{Deserialize, Serialize};

use crate::algorithm;
use crate::conditions::{EndpointCondition, conditions, summary};
use crate::open_connections;
use crate::table::{Style, table};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServicesAnswer {
    pub services: Vec<ServiceRow>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceRow {
    pub service: String,
    pub protocol: String,
    pub frontends: Vec<String>,
    pub endpoints: Vec<String>,
    pub ready: usize,
    pub total: usize,
    pub internal_policy: String,
    pub external_policy: String,
    pub affinity_seconds: Option<u32>,
    /// How new connections are shared among the endpoints, if the Service or the operator asks for an algorithm.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// What is asked for, where the mode does not have it.
    #[serde(default)]
    pub algorithm_lacking: Option<String>,
    /// What happens to open connections of an endpoint that is removed: `reset` or `reset-after=30s`; absent for `keep`.
    #[serde(default)]
    pub connections_of_removed_endpoints: Option<String>,
    /// Whether idle connections end when endpoints were added: `idle=60s`; absent for `off`.
    #[serde(default)]
    pub rebalance: Option<String>,
    /// Endpoints that do not get what others get, and why.
    #[serde(default)]
    pub conditions: Vec<EndpointCondition>,
    /// Addresses that another Service has.
    pub conflicts: Vec<String>,
}

pub fn services(plan: &Plan) -> ServicesAnswer {
    let rows = plan.facts().services.values().flat_map(|service| rows(plan, service));
    ServicesAnswer { services: rows.collect() }
}

/// One row for each port; a Service without ports, or without a ClusterIP, still has one.
fn rows(plan: &Plan, service: &Service) -> Vec<ServiceRow> {
    let mut ports: BTreeMap<&ServicePortName, Vec<&ServicePlan>> = BTreeMap::new();
    for (key, port) in plan.port_plans(&service.name) {
        ports.entry(&key.name).or_default().push(port);
    }
    if ports.is_empty() {
        return vec![row_without_rules(service)];
    }
    ports.into_iter().map(|(name, families)| row(plan, service, name, &families)).collect()
}

fn row_without_rules(service: &Service) -> ServiceRow {
    let frontend = match &service.external_name {
        Some(name) => format!("none: ExternalName {name}"),
        None => "none: headless".into(),
    };
    ServiceRow {
        service: service.name.to_string(),
        protocol: "-".into(),
        frontends: vec![frontend],
        endpoints: Vec::new(),
        ready: 0,
        total: 0,
        internal_policy: policy(service.internal_policy).into(),
        external_policy: policy(service.external_policy).into(),
        affinity_seconds: None,
        algorithm: None,
        algorithm_lacking: None,
        connections_of_removed_endpoints: None,
        rebalance: None,
        conditions: Vec::new(),
        conflicts: Vec::new(),
    }
}

fn row(plan: &Plan, service: &Service, name: &ServicePortName, families: &[&ServicePlan]) -> ServiceRow {
    let frontends = families.iter().flat_map(|port| &port.frontends);
    let endpoints = families.iter().flat_map(|port| port.shares(Pool::Cluster));
    let conflicts = families.iter().flat_map(|port| &port.conflicts);
    let (ready, total) = count(plan, name);
    ServiceRow {
        service: name.to_string(),
        protocol: name.protocol.to_string(),
        frontends: frontends.map(|frontend| format!("{} {}", frontend.kind, frontend.address)).collect(),
        endpoints: endpoints.collect(),
        ready,
        total,
        internal_policy: policy(service.internal_policy).into(),
        external_policy: policy(service.external_policy).into(),
        affinity_seconds: service.affinity_seconds,
        algorithm: families.first().and_then(|port| algorithm::name(&port.balance)),
        algorithm_lacking: families.first().and_then(|port| algorithm::lacking(&port.balance)),
        connections_of_removed_endpoints: families
            .first()
            .and_then(|port| open_connections::removed(port.open_connections)),
        rebalance: families.first().and_then(|port| open_connections::rebalance(port.open_connections)),
        conditions: families.iter().flat_map(|port| conditions(plan, port)).collect(),
        conflicts: conflicts.map(|it| format!("{} belongs to {}", it.address, it.holder)).collect(),
    }
}

/// Endpoints that are ready, and all that the slices list for the port.
fn count(plan: &Plan, name: &ServicePortName) -> (usize, usize) {
    let Some(slices) = plan.facts().slices.get(&name.service) else { return (0, 0) };
    let of_port = slices
        .0
        .iter()
        .filter(|slice| !slice.is_for_names_only)
        .filter(|slice| slice.ports.iter().any(|port| port.name == name.port && port.protocol == name.protocol));
    of_port
        .flat_map(|slice| &slice.endpoints)
        .fold((0, 0), |(ready, total), endpoint| (ready + usize::from(endpoint.conditions.ready), total + 1))
}

fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

impl ServicesAnswer {
    pub fn text(&self, style: Style) -> String {
        if self.services.is_empty() {
            return "no Services\n".into();
        }
        let mut headings = vec!["SERVICE", "PROTOCOL", "READY", "FRONTENDS", "POLICY", "AFFINITY"];
        let mut rows: Vec<Vec<String>> = self.services.iter().map(cells).collect();
        for (heading, cell) in OPTIONAL {
            let column: Vec<Option<String>> = self.services.iter().map(cell).collect();
            // A column for what no Service has would only take room.
            if column.iter().any(Option::is_some) {
                headings.push(heading);
                let cells = column.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into()));
                rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
            }
        }
        table(&headings, &rows, style)
    }
}

type Cell = fn(&ServiceRow) -> Option<String>;
const OPTIONAL: [(&str, Cell); 2] = [("ALGORITHM", algorithm_cell), ("OPEN CONNECTIONS", open_connections_cell)];

fn algorithm_cell(row: &ServiceRow) -> Option<String> {
    let used = row.algorithm.as_deref()?;
    Some(match &row.algorithm_lacking {
        Some(lacking) => format!("{used}\n(this mode lacks {lacking})"),
        None => used.into(),
    })
}

fn open_connections_cell(row: &ServiceRow) -> Option<String> {
    let lines = open_connections::lines(row.connections_of_removed_endpoints.as_deref(), row.rebalance.as_deref());
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn cells(row: &ServiceRow) -> Vec<String> {
    let policy = match (row.internal_policy.as_str(), row.external_policy.as_str()) {
        ("Cluster", "Cluster") => "Cluster".to_string(),
        (internal, external) => format!("internal {internal}\nexternal {external}"),
    };
    let conflicts = row.conflicts.iter().map(|conflict| format!("({conflict})"));
    vec![
        row.service.clone(),
        row.protocol.clone(),
        ready(row),
        row.frontends.iter().cloned().chain(conflicts).collect::<Vec<_>>().join("\n"),
        policy,
        row.affinity_seconds.map_or("-".into(), |seconds| format!("{seconds}s")),
    ]
}

/// Ready endpoints of all, and how many of them are quarantined or warming up.
fn ready(row: &ServiceRow) -> String {
    if row.protocol == "-" {
        return "-".into();
    }
    let counts = [format!("{}/{}", row.ready, row.total)];
    counts.into_iter().chain(summary(&row.conditions)).collect::<Vec<_>>().join("\n")
}
