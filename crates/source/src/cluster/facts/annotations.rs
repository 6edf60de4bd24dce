//! Events about Services whose annotations are malformed: once for each Service and reason, however often it is read.

use std::collections::BTreeMap;

use portolan_model::ServiceName;

use crate::cluster::events::{EventKind, EventWriter};
use crate::convert::context::Flaw;

const ANNOTATIONS: &str = "metadata.annotations";

#[derive(Debug, Default)]
pub(super) struct Malformed {
    /// `None` until there is a cluster to write them to.
    pub(super) events: Option<EventWriter>,
    reported: BTreeMap<ServiceName, Vec<String>>,
}

impl Malformed {
    /// A Service was read, with these parts left out.
    pub(super) fn note(&mut self, service: &ServiceName, omitted: &[Flaw]) {
        let flaws = omitted.iter().filter(|flaw| flaw.path.starts_with(ANNOTATIONS));
        let flaws: Vec<String> = flaws.map(|flaw| format!("{flaw}; the default is used")).collect();
        if flaws.is_empty() {
            return self.forget(service);
        }
        let before = self.reported.insert(service.clone(), flaws.clone()).unwrap_or_default();
        let Some(events) = &self.events else { return };
        for flaw in flaws.iter().filter(|flaw| !before.contains(flaw)) {
            events.service_event(service, EventKind::Warning, "MalformedAnnotation", "Balance", flaw);
        }
    }

    pub(super) fn forget(&mut self, service: &ServiceName) {
        self.reported.remove(service);
    }
}
