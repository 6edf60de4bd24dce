//! The active mode, and what outlives a change of it: the listeners of earlier modes.

use std::sync::{Arc, Mutex};

use anyhow::Context;
use portolan_dataplane::mode::ActiveMode;
use portolan_dataplane::{Error, Listeners, NamedSocket, SyncReport, Trust};
use portolan_plan::Plan;

use crate::control::SharedReader;
use crate::settings::TrafficSettings;

pub(super) struct Engine {
    pub(super) mode: Box<dyn ActiveMode>,
    /// Listeners of earlier modes: open until no rule leads to them, and kept until their last connection has ended.
    retired: Vec<Arc<Listeners>>,
}

impl Engine {
    pub(super) fn open(traffic: &TrafficSettings) -> anyhow::Result<Self> {
        let mode = open(traffic)?;
        Ok(Self { mode, retired: Vec::new() })
    }

    /// Adopts the listeners of the process before this one. A mode without listeners ignores them.
    pub(super) fn adopt(&self, inherited: Vec<NamedSocket>) -> anyhow::Result<()> {
        let Some(listeners) = self.mode.listeners() else { return Ok(()) };
        match listeners.adopt(inherited).context("adopting listeners")? {
            0 => {}
            count => tracing::info!("adopted {count} listeners"),
        }
        Ok(())
    }

    /// Another mode is active from now on. The objects of the previous one stay until the new one has synced.
    pub(super) fn change_mode(&mut self, traffic: &TrafficSettings) -> anyhow::Result<()> {
        let mode = open(traffic)?;
        self.retired.extend(self.mode.listeners());
        self.mode = mode;
        Ok(())
    }

    /// What cannot be read now is read by the first sync, which reports the error.
    pub(super) fn read_ahead(&mut self) {
        if let Err(error) = self.mode.read_ahead() {
            tracing::debug!("reading the kernel before the first sync: {error}");
        }
    }

    pub(super) fn sync(&mut self, plan: &Plan, trust: Trust) -> anyhow::Result<SyncReport> {
        Ok(self.mode.sync(plan, trust)?)
    }

    /// Closes the listeners of earlier modes, once no rule leads to them.
    pub(super) fn close_retired(&mut self) -> Result<(), Error> {
        self.retired.iter().try_for_each(|listeners| listeners.close_all())?;
        self.retired.retain(|listeners| listeners.active() > 0);
        Ok(())
    }

    /// Listeners of earlier modes that carry connections.
    pub(super) fn retired(&self) -> &[Arc<Listeners>] {
        &self.retired
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
