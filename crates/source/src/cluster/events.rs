//! Kubernetes Events: best effort, and never awaited.

use std::sync::Arc;

use portolan_model::ServiceName;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// How many Events may be queued; more are dropped.
const QUEUE: usize = 64;

/// The reporting controller, by which Events are filtered: the same as kube-proxy's.
const CONTROLLER: &str = "kube-proxy";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

/// Queues Events without blocking.
#[derive(Clone, Debug)]
pub struct EventWriter {
    node_name: Arc<str>,
    queue: mpsc::Sender<Value>,
}

impl EventWriter {
    pub(super) fn new(node_name: &str) -> (Self, mpsc::Receiver<Value>) {
        let (queue, events) = mpsc::channel(QUEUE);
        (Self { node_name: node_name.into(), queue }, events)
    }

    /// About this Node.
    pub fn node_event(&self, kind: EventKind, reason: &str, action: &str, note: &str) {
        // As in the Events of the kubelet, the name of the Node takes the place of its UID.
        let regarding = json!({"kind": "Node", "apiVersion": "v1", "name": &*self.node_name, "uid": &*self.node_name});
        self.enqueue("default", regarding, kind, reason, action, note);
    }

    pub fn service_event(&self, service: &ServiceName, kind: EventKind, reason: &str, action: &str, note: &str) {
        let (namespace, name) = (&*service.namespace, &*service.name);
        let regarding = json!({"kind": "Service", "apiVersion": "v1", "namespace": namespace, "name": name});
        self.enqueue(namespace, regarding, kind, reason, action, note);
    }

    fn enqueue(&self, namespace: &str, regarding: Value, kind: EventKind, reason: &str, action: &str, note: &str) {
        let now = jiff::Timestamp::now();
        let about = regarding["name"].as_str().unwrap_or("node");
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": format!("{about}.{:x}", now.as_nanosecond()), "namespace": namespace},
            "eventTime": format!("{now:.6}"),
            "reportingController": CONTROLLER,
            "reportingInstance": format!("{CONTROLLER}-{}", self.node_name),
            "action": action,
            "reason": reason,
            "regarding": regarding,
            "note": shortened(note),
            "type": format!("{kind:?}"),
        });
        if self.queue.try_send(event).is_err() {
            tracing::debug!("the queue of Events is full: dropping {reason}");
        }
    }
}

/// The API accepts a kilobyte.
fn shortened(note: &str) -> String {
    let end = (0..=note.len().min(1000)).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
    note[..end].to_owned()
}
