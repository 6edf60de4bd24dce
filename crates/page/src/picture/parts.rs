//! The picture as it is sent. Parts refer to each other by their `id`.

use portolan_plan::Origin;
use serde::Serialize;

use super::behind::Behind;

#[derive(Clone, Debug, Default, Serialize)]
pub struct ServiceAnswer {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub change: u64,
    pub internal_policy: String,
    pub external_policy: String,
    pub object: ObjectAnswer,
    pub clients: Vec<Client>,
    pub ports: Vec<PortAnswer>,
    pub frontends: Vec<FrontendAnswer>,
    pub routes: Vec<RouteAnswer>,
    pub pools: Vec<PoolAnswer>,
    pub shares: Vec<ShareAnswer>,
    pub endpoints: Vec<EndpointAnswer>,
    pub conflicts: Vec<String>,
    pub notes: Vec<String>,
    pub omitted_endpoints: usize,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct ObjectAnswer {
    pub object: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub command: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Client {
    pub id: String,
    pub origin: &'static str,
    pub words: String,
}

impl Client {
    pub(super) fn of(origin: Origin) -> Self {
        let name = origin_name(origin);
        Self { id: format!("client:{name}"), origin: name, words: origin.to_string() }
    }
}

pub(super) fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Pod => "pod",
        Origin::Node => "node",
        Origin::Outside => "outside",
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct PortAnswer {
    pub id: String,
    pub name: String,
    pub protocol: String,
    pub family: String,
    pub number: Option<u16>,
    pub node_port: Option<u16>,
    pub affinity_seconds: Option<u32>,
    pub algorithm: Option<String>,
    pub health_check_port: Option<u16>,
}

#[derive(Clone, Debug, Serialize)]
pub struct FrontendAnswer {
    pub id: String,
    pub port: String,
    pub kind: String,
    pub address: String,
    pub sources: Option<Vec<String>>,
    pub behind: Vec<Behind>,
}

/// One for each frontend and origin of a packet.
#[derive(Clone, Debug, Serialize)]
pub struct RouteAnswer {
    pub id: String,
    pub frontend: String,
    pub origin: &'static str,
    pub verdict: &'static str,
    pub pool: Option<String>,
    pub masquerade: bool,
    pub reason: Option<String>,
    pub words: String,
    pub behind: Vec<Behind>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PoolAnswer {
    pub id: String,
    pub port: String,
    pub kind: String,
    pub slots: usize,
    pub words: String,
    pub behind: Vec<Behind>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ShareAnswer {
    pub id: String,
    pub pool: String,
    pub endpoint: String,
    pub share: f64,
    pub behind: Vec<Behind>,
}

#[derive(Clone, Debug, Serialize)]
pub struct EndpointAnswer {
    pub id: String,
    pub port: String,
    pub address: String,
    pub pod: Option<String>,
    pub node: Option<String>,
    pub zone: Option<String>,
    pub is_local: bool,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    pub weight: u16,
    pub state: &'static str,
    pub because: String,
    pub connections: Option<u64>,
    pub bytes: Option<u64>,
    pub behind: Vec<Behind>,
}

impl ServiceAnswer {
    /// What is behind all parts.
    pub(super) fn behind_mut(&mut self) -> impl Iterator<Item = &mut Behind> {
        let frontends = self.frontends.iter_mut().flat_map(|it| it.behind.iter_mut());
        let routes = self.routes.iter_mut().flat_map(|it| it.behind.iter_mut());
        let pools = self.pools.iter_mut().flat_map(|it| it.behind.iter_mut());
        let shares = self.shares.iter_mut().flat_map(|it| it.behind.iter_mut());
        let endpoints = self.endpoints.iter_mut().flat_map(|it| it.behind.iter_mut());
        frontends.chain(routes).chain(pools).chain(shares).chain(endpoints)
    }
}
