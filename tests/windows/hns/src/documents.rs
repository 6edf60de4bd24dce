//! What queries and settings mean.

use portolan_hns::{Error, ErrorKind, Guid, Hns, MemoryHns};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Network,
    Endpoint,
    LoadBalancer,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Query {
    filter: String,
}

/// All objects of a kind as documents. Identities are in capital letters, as HNS writes them.
fn all(hns: &mut MemoryHns, kind: Kind) -> Vec<Value> {
    let (endpoints, balancers) = hns.held();
    let values: Vec<Value> = match kind {
        Kind::Network => {
            hns.networks().unwrap_or_default().iter().filter_map(|it| serde_json::to_value(it).ok()).collect()
        }
        Kind::Endpoint => endpoints.iter().filter_map(|it| serde_json::to_value(it).ok()).collect(),
        Kind::LoadBalancer => balancers.iter().filter_map(|it| serde_json::to_value(it).ok()).collect(),
    };
    values
}

fn id(value: &Value) -> Option<Guid> {
    value.get("ID")?.as_str()?.parse().ok()
}

pub(crate) fn enumerate(hns: &mut MemoryHns, kind: Kind, query: &str) -> Result<String, Error> {
    let query: Query = parse(if query.is_empty() { "{}" } else { query })?;
    let filter: Value = if query.filter.is_empty() { Value::Null } else { parse(&query.filter)? };
    let found = all(hns, kind).into_iter().filter(|value| matches(value, &filter));
    let ids: Vec<String> = found.filter_map(|value| id(&value)).map(|id| id.to_string().to_uppercase()).collect();
    Ok(serde_json::to_string(&ids).unwrap_or_default())
}

/// A filter has a name, an identity, or the network of endpoints.
fn matches(value: &Value, filter: &Value) -> bool {
    let same = |field: &str, wanted: &Value| {
        let held = value.get(field).and_then(Value::as_str).unwrap_or_default();
        wanted.as_str().is_some_and(|wanted| wanted.eq_ignore_ascii_case(held))
    };
    let Some(fields) = filter.as_object() else { return true };
    fields.iter().all(|(name, wanted)| match name.as_str() {
        "VirtualNetwork" => same("HostComputeNetwork", wanted),
        name => same(name, wanted),
    })
}

pub(crate) fn content(hns: &mut MemoryHns, kind: Kind, wanted: Guid) -> Result<String, Error> {
    let (found, missing) = match kind {
        Kind::Network => {
            let found = hns.networks()?.into_iter().find(|network| network.id == wanted);
            (found.map(|it| serde_json::to_string(&it)), ErrorKind::NetworkNotFound)
        }
        Kind::Endpoint => (hns.endpoint(wanted).map(|it| serde_json::to_string(&it)), ErrorKind::EndpointNotFound),
        Kind::LoadBalancer => {
            (hns.load_balancer(wanted).map(|it| serde_json::to_string(&it)), ErrorKind::ObjectNotFound)
        }
    };
    found.and_then(Result::ok).ok_or_else(|| Error::of(missing, format!("looking for {wanted}")))
}

pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|_| Error::of(ErrorKind::InvalidDocument, "reading a document"))
}
