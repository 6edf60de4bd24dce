//! Between documents and calls: queries, lists of identities, and refusals.

use portolan_kernel::compute_network::{ComputeNetwork, Failure, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Error, ErrorKind, Guid};

pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Network => "HNS network",
        Kind::Endpoint => "HNS endpoint",
        Kind::LoadBalancer => "HNS load balancer",
    }
}

/// A query. Its filter is a JSON document in a string of a JSON document.
pub(super) fn filter(filter: Option<Value>) -> String {
    let mut query = json!({"SchemaVersion": {"Major": 2, "Minor": 0}});
    if let Some(filter) = filter {
        query["Filter"] = filter.to_string().into();
    }
    query.to_string()
}

pub(super) fn enumerated(service: &ComputeNetwork, kind: Kind, query: &str) -> Result<Vec<Guid>, Error> {
    let attempted = || format!("listing every {}", name(kind));
    let answer = checked(service.enumerate(kind, query), attempted)?;
    // Without objects, some versions answer with nothing or null.
    let answer = if answer.is_empty() { "null" } else { &answer };
    let found: Option<Vec<Guid>> = parsed(answer, attempted)?;
    Ok(found.unwrap_or_default())
}

pub(super) fn document(settings: &impl Serialize) -> Result<String, Error> {
    let failed = |error: serde_json::Error| {
        let code = Error::of(ErrorKind::InvalidDocument, "").code();
        Error::new("writing a document for HNS", code, error.to_string())
    };
    serde_json::to_string(settings).map_err(failed)
}

pub(super) fn parsed<T: for<'a> Deserialize<'a>>(text: &str, attempted: impl Fn() -> String) -> Result<T, Error> {
    let code = || Error::of(ErrorKind::InvalidDocument, "").code();
    serde_json::from_str(text).map_err(|error| Error::new(attempted(), code(), format!("its answer: {error}")))
}

/// What the error record of HNS says.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Record {
    error: String,
    error_code: Option<u32>,
}

pub(super) fn checked<T>(answer: Result<T, Failure>, attempted: impl Fn() -> String) -> Result<T, Error> {
    answer.map_err(|Failure { code, record }| {
        let read: Record = serde_json::from_str(&record).unwrap_or_default();
        // A record counts also where the call reports success.
        let is_success = code & 0x8000_0000 == 0;
        let code =
            if is_success { read.error_code.unwrap_or_else(|| Error::of(ErrorKind::Other, "").code()) } else { code };
        let text = [read.error, record].into_iter().find(|text| !text.trim().is_empty());
        Error::new(attempted(), code, text.unwrap_or_else(|| "HNS refused without a reason".into()))
    })
}
