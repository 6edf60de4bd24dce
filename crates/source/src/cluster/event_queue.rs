//! Writes queued Events to the API server.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::mpsc;

use super::pace::Throttle;
use super::shared::Shared;

/// One every ten seconds in the long run, and so many at once: a repeated failure needs no Event each time.
const RATE: f32 = 0.1;
const BURST: u32 = 25;

/// Writes queued Events until the queue is closed.
pub(super) async fn write(shared: Arc<Shared>, mut events: mpsc::Receiver<Value>) {
    let throttle = Throttle::new(RATE, BURST);
    while let Some(event) = events.recv().await {
        if !throttle.try_take().await {
            tracing::debug!("too many Events: dropping {}", event["reason"]);
            continue;
        }
        if let Err(reason) = post(&shared, &event).await {
            tracing::debug!("cannot write the Event {}: {reason}", event["reason"]);
        }
    }
}

async fn post(shared: &Shared, event: &Value) -> Result<(), String> {
    let namespace = event["metadata"]["namespace"].as_str().unwrap_or("default");
    let request = http::Request::post(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(Full::from(event.to_string()));
    let response = shared.access.send(request.map_err(|error| error.to_string())?).await?;
    if response.status().is_success() { Ok(()) } else { Err(response.status().to_string()) }
}
