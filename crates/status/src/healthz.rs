//! The pages of the health server: `/healthz` and `/livez`.

use std::sync::Arc;

use http::StatusCode;

use crate::health::{self, Health};
use crate::metrics::Metrics;
use crate::server::{self, Handler, answer, not_found};

pub(crate) const JSON: &str = "application/json";

/// Any method is accepted, as in kube-proxy.
pub(crate) fn handler(health: Health, metrics: Arc<Metrics>) -> Handler {
    Arc::new(move |request| {
        let answer = match request.uri().path() {
            "/healthz" => respond(&health.healthz(), |code| metrics.healthz_answered(code)),
            "/livez" => respond(&health.livez(), |code| metrics.livez_answered(code)),
            _ => not_found(),
        };
        Box::pin(std::future::ready(answer))
    })
}

fn respond(health: &health::Answer, count: impl FnOnce(&str)) -> server::Answer {
    let status = if health.is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    count(status.as_str());
    let body = serde_json::to_string(&health.report).expect("a report is always valid JSON");
    answer(status, JSON, body)
}
