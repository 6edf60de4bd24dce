//! How many connections does each endpoint have?

use std::net::SocketAddr;

use portolan_dataplane::connections::Load;
use portolan_model::Protocol;
use portolan_plan::{Plan, ServicePlan};
use serde::{Deserialize, Serialize};

use crate::table::{Style, table};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadAnswer {
    pub services: Vec<LoadRow>,
}

/// One Service port in one family.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadRow {
    pub service: String,
    pub family: String,
    pub open: u32,
    /// The connections of the most loaded endpoint, divided by its share.
    pub imbalance: f64,
    pub endpoints: Vec<EndpointLoad>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndpointLoad {
    pub endpoint: SocketAddr,
    pub open: u32,
    /// It gets new connections.
    pub is_in_pool: bool,
}

/// TCP alone: other protocols have no connections.
pub fn load_answer(plan: &Plan, load: &Load) -> LoadAnswer {
    let ports = plan.services.values().filter(|service| service.protocol() == Protocol::Tcp);
    LoadAnswer { services: ports.map(|service| row(service, load)).collect() }
}

fn row(service: &ServicePlan, load: &Load) -> LoadRow {
    let load = load.of(service);
    let pools = || service.cluster.iter().chain(&service.local);
    let endpoint = |(endpoint, open): (&SocketAddr, &u32)| EndpointLoad {
        endpoint: *endpoint,
        open: *open,
        is_in_pool: pools().any(|it| it.socket() == *endpoint),
    };
    LoadRow {
        service: service.key.to_string(),
        family: service.key.family.to_string(),
        open: load.endpoints.values().sum(),
        imbalance: load.imbalance,
        endpoints: load.endpoints.iter().map(endpoint).collect(),
    }
}

impl LoadAnswer {
    pub fn text(&self, style: Style) -> String {
        if self.services.is_empty() {
            return "no Services\n".into();
        }
        let rows: Vec<Vec<String>> = self.services.iter().map(cells).collect();
        table(&["SERVICE", "FAMILY", "OPEN", "IMBALANCE", "ENDPOINTS"], &rows, style)
    }
}

fn cells(row: &LoadRow) -> Vec<String> {
    let line = |load: &EndpointLoad| {
        let note = if load.is_in_pool { "" } else { "  (no new connections)" };
        format!("{} {}{note}", load.endpoint, load.open)
    };
    vec![
        row.service.clone(),
        row.family.clone(),
        row.open.to_string(),
        format!("{:.2}", row.imbalance),
        row.endpoints.iter().map(line).collect::<Vec<_>>().join("\n"),
    ]
}
