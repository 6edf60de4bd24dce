//! The active mode, and what outlives a change of it: conntrack entries of earlier plans, and listeners of earlier
//! modes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use portolan_dataplane::mode::ActiveMode;
use portolan_dataplane::{Changes, Error, Listeners, NamedSocket, SyncReport, Trust, forget_stale_flows};
use portolan_kernel::conntrack::Conntrack;
use portolan_plan::Plan;

use crate::control::SharedReader;
use crate::settings::TrafficSettings;

pub(super) struct Engine {
    pub(super) mode: Box<dyn ActiveMode>,
    conntrack: Conntrack,
    /// Deleting stale flows failed, so that all flows must be read.
    flows_unknown: bool,
    /// Listeners of earlier modes: open until no rule leads to them, and kept until their last connection has ended.
    retired: Vec<Arc<Listeners>>,
}

/// How many stale flows were deleted, and how long that took.
pub(super) struct Forgotten {
    pub(super) flows: usize,
    pub(super) time: Duration,
}

impl Engine {
    /// Adopts the listeners of the process before this one. A mode without listeners ignores them.
    pub(super) fn open(traffic: &TrafficSettings, inherited: Vec<NamedSocket>) -> anyhow::Result<Self> {
        let mode = open(traffic)?;
        if let Some(listeners) = mode.listeners() {
            match listeners.adopt(inherited).context("adopting listeners")? {
                0 => {}
                count => tracing::info!("adopted {count} listeners"),
            }
        }
        let conntrack = Conntrack::open().context("opening the kernel's connection table")?;
        Ok(Self { mode, conntrack, flows_unknown: false, retired: Vec::new() })
    }

    /// Another mode is active from now on. The objects of the previous one stay until the new one has synced.
    pub(super) fn change_mode(&mut self, traffic: &TrafficSettings) -> anyhow::Result<()> {
        let mode = open(traffic)?;
        self.retired.extend(self.mode.listeners());
        self.mode = mode;
        Ok(())
    }

    pub(super) fn sync(&mut self, plan: &Plan, trust: Trust) -> anyhow::Result<SyncReport> {
        Ok(self.mode.sync(plan, trust)?)
    }

    /// Deletes UDP flows to endpoints that are gone. After a failure, the next call reads all flows.
    pub(super) fn forget_flows(&mut self, changes: &Changes, plan: &Plan) -> anyhow::Result<Forgotten> {
        let begin = Instant::now();
        let changes = if self.flows_unknown { &Changes::Unknown } else { changes };
        self.flows_unknown = true;
        let flows = forget_stale_flows(&mut self.conntrack, changes, plan)?;
        self.flows_unknown = false;
        Ok(Forgotten { flows, time: begin.elapsed() })
    }

    /// Closes the listeners of earlier modes, once no rule leads to them.
    pub(super) fn close_retired(&mut self) -> Result<(), Error> {
        self.retired.iter().try_for_each(|listeners| listeners.close_all())?;
        self.retired.retain(|listeners| listeners.active() > 0);
        Ok(())
    }

    /// Connections that this process carries, for this mode and for earlier ones.
    pub(super) fn carried(&self) -> usize {
        let current = self.mode.listeners();
        self.retired.iter().chain(&current).map(|listeners| listeners.active()).sum()
    }

    /// A failure costs the traffic metrics, and nothing else.
    pub(super) fn traffic_reader(&self) -> Option<SharedReader> {
        let reader = self.mode.traffic_reader();
        let reader = reader.inspect_err(|error| tracing::error!("traffic is not counted: {error}"));
        reader.ok().map(|reader| Arc::new(Mutex::new(reader)))
    }
}

fn open(traffic: &TrafficSettings) -> anyhow::Result<Box<dyn ActiveMode>> {
    let TrafficSettings { mode, mode_settings, .. } = traffic;
    tracing::debug!("mode {}: {}", mode.name(), mode.describe(mode_settings));
    mode.open(mode_settings).with_context(|| format!("opening mode {}", mode.name()))
}
