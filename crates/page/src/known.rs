//! What pictures are made of.

use std::net::SocketAddr;
use std::path::PathBuf;

use portolan_dataplane::ModeSettings;
use portolan_dataplane::mode::Mode;
use portolan_model::ServiceName;
use portolan_plan::{Plan, PlanConfig, PortKey};

/// Connections and bytes of an endpoint since the start, as far as they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub connections: u64,
    pub bytes: u64,
}

pub struct Known<'a> {
    pub plan: &'a Plan,
    pub config: &'a PlanConfig,
    pub mode: &'static dyn Mode,
    pub mode_settings: &'a ModeSettings,
    /// Where the objects are, if they are in files.
    pub manifests: Option<&'a [PathBuf]>,
    /// The number of the newest change.
    pub change: u64,
    pub usage: &'a dyn Fn(&PortKey, SocketAddr) -> Option<Usage>,
}

impl Known<'_> {
    /// The Service that a text means: `namespace/name`, or `name` in the namespace `default`.
    pub(crate) fn find(&self, text: &str) -> Result<ServiceName, String> {
        let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
        let wanted = ServiceName::new(namespace, name);
        match self.plan.facts().services.contains_key(&wanted) {
            true => Ok(wanted),
            false => Err(format!("there is no Service {wanted}")),
        }
    }
}
