//! The state of the node in short.

use std::fs;
use std::time::UNIX_EPOCH;

use anyhow::anyhow;
use portolan_config::KUBERNETES_VERSION;
use portolan_dataplane::modes;
use portolan_page::{
    ConntrackUse, DriftAnswer, HealthAnswer, LatencyAnswer, Overview, RefusalAnswer, Size, SyncsAnswer, WatchAnswer,
};
use portolan_source::cluster::WatchState;

use super::state::now;
use super::world::World;
use crate::daemon::history::History;

impl World<'_> {
    pub(super) fn overview(&self) -> anyhow::Result<Overview> {
        let node = &self.plan.facts().node;
        let history = self.history()?;
        let size = self.size(history.newest());
        let (refusals, counters_are_full) = self.refusals();
        Ok(Overview {
            version: env!("CARGO_PKG_VERSION").into(),
            kubernetes_version: KUBERNETES_VERSION.into(),
            source: if self.daemon.is_some() { "daemon" } else { "manifests" }.into(),
            facts_from: if self.manifests.is_some() { "manifests" } else { "API server" }.into(),
            node: node.name.to_string(),
            zone: node.zone.as_ref().map(ToString::to_string),
            mode: self.traffic.mode.name().into(),
            modes: modes::ALL.iter().map(|mode| mode.name().to_owned()).collect(),
            started_unix_ms: self.started_unix_ms,
            now_unix_ms: now(),
            health: self.health(&history)?,
            services: size.services,
            service_ports: size.service_ports,
            endpoints: size.endpoints,
            without_endpoints: size.without_endpoints,
            change: history.newest(),
            latency_ms: LatencyAnswer::of(history.latencies()),
            syncs: syncs(&history),
            drift: drift(&history),
            watches: self.watches()?,
            conntrack: self.daemon.as_ref().and_then(|_| conntrack()),
            refusals,
            counters_are_full,
            traffic_counted: self.daemon.is_some() && self.traffic.mode_settings.traffic_counters,
        })
    }

    /// Counted once for each change: it takes as long as the cluster is large.
    fn size(&self, change: u64) -> Size {
        match &self.daemon {
            Some((_, live)) => live.size(change, &self.plan),
            None => Size::of(&self.plan),
        }
    }

    fn health(&self, history: &History) -> anyhow::Result<HealthAnswer> {
        let last_error = history.last_error().map(str::to_owned);
        let Some((published, _)) = &self.daemon else {
            return Ok(HealthAnswer { is_ready: true, is_healthy: true, pending_ms: None, last_error });
        };
        let health = published.lock().map_err(|_| anyhow!("the daemon has failed"))?.health.clone();
        let pending_ms = health.as_ref().and_then(|health| health.pending()).map(|time| time.as_secs_f64() * 1e3);
        let is_ready = health.as_ref().is_some_and(|health| health.is_ready());
        let is_healthy = health.is_some_and(|health| health.is_healthy()) && last_error.is_none();
        Ok(HealthAnswer { is_ready, is_healthy, pending_ms, last_error })
    }

    fn watches(&self) -> anyhow::Result<Vec<WatchAnswer>> {
        let Some((published, _)) = &self.daemon else { return Ok(Vec::new()) };
        let watches = published.lock().map_err(|_| anyhow!("the daemon has failed"))?.watches.clone();
        Ok(watches().iter().map(watch).collect())
    }

    fn refusals(&self) -> (Vec<RefusalAnswer>, bool) {
        self.daemon.as_ref().map_or((Vec::new(), false), |(_, live)| live.refusals())
    }
}

fn watch(state: &WatchState) -> WatchAnswer {
    let since = state.since.duration_since(UNIX_EPOCH).unwrap_or_default();
    WatchAnswer {
        what: state.what.to_owned(),
        connected: state.connected,
        since_unix_ms: u64::try_from(since.as_millis()).unwrap_or(0),
        panics: state.panics,
    }
}

fn syncs(history: &History) -> SyncsAnswer {
    let tally = history.tally();
    SyncsAnswer {
        changes: tally.changes,
        failures: tally.failures,
        repairs: tally.repairs,
        repaired_objects: tally.repaired_objects,
    }
}

fn drift(history: &History) -> Option<DriftAnswer> {
    let (unix_ms, drift) = history.last_drift()?;
    let (what, process) = (drift.what.clone(), drift.process.clone());
    Some(DriftAnswer { unix_ms: *unix_ms, what, process, repaired: drift.repaired })
}

/// `None` without connection tracking.
fn conntrack() -> Option<ConntrackUse> {
    let read = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{name}")).ok()?.trim().parse().ok()
    };
    Some(ConntrackUse { entries: read("count")?, limit: read("max")? })
}
