//! What is visible from outside: health, metrics, status pages and Events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portolan_balance::Verdict;
use portolan_config::KUBERNETES_VERSION;
use portolan_dataplane::connections::NoteResets;
use portolan_dataplane::mode::{BalancerCall, BalancerFailure};
use portolan_dataplane::tables::RuleTally;
use portolan_dataplane::{NoteWalk, SyncReport};
use portolan_model::Family;
use portolan_page::{Ask, Page};
use portolan_plan::Plan;
use portolan_source::cluster::{EventKind, EventWriter};
use portolan_status::{
    Build, Clock, Error, Listen, LoadBalancerCall, Options, Pages, ReadTraffic, Status, Synced, TrafficLimits,
};
use tokio::runtime::Handle;

use super::facts::Facts;
use crate::log;
use crate::settings::Settings;

pub(super) struct Observers {
    pub(super) status: Status,
    page: Option<Page>,
    events: Option<EventWriter>,
    runtime: Handle,
    /// When the first pending change arrived.
    waiting_since: Option<Instant>,
    causes: Causes,
}

/// When the causes of pending changes happened, from the objects' annotations. Their number is bounded: while syncs fail,
/// changes keep arriving.
#[derive(Default)]
struct Causes(Vec<(Family, SystemTime)>);

/// Enough for a histogram.
const MOST_CAUSES: usize = 10_000;

impl Causes {
    /// The oldest ones are kept: they show the largest delays.
    fn extend(&mut self, more: Vec<(Family, SystemTime)>) {
        let room = MOST_CAUSES - self.0.len();
        self.0.extend(more.into_iter().take(room));
    }

    fn take(&mut self) -> Vec<(Family, SystemTime)> {
        std::mem::take(&mut self.0)
    }
}

impl Observers {
    pub(super) fn open(
        settings: &Settings,
        facts: &Facts,
        runtime: Handle,
        read_traffic: ReadTraffic,
        ask: Ask,
        is_replacing: bool,
    ) -> anyhow::Result<Self> {
        let events = facts.cluster().map(|cluster| cluster.events());
        let mut options = options(settings, read_traffic);
        if is_replacing {
            // The other daemon has the ports until it is replaced.
            (options.healthz, options.metrics) = (nowhere(), nowhere());
        }
        let status = Status::start(options, &runtime).inspect_err(|error| report_failure(events.as_ref(), error));
        if let Some(events) = &events {
            events.node_event(EventKind::Normal, "Starting", "StartKubeProxy", "");
        }
        let page = settings.page.as_ref().map(|page| page.open(ask, &runtime, is_replacing)).transpose()?;
        let observers = Self { status: status?, page, events, runtime, waiting_since: None, causes: Causes::default() };
        observers.follow_watches(facts);
        Ok(observers)
    }

    /// A watch that has lost its server sends nothing, so its state is polled.
    pub(super) fn follow_watches(&self, facts: &Facts) {
        let Some(cluster) = facts.cluster().cloned() else { return };
        self.status.before_scrape(Arc::new(move |metrics| {
            for watch in cluster.connection() {
                metrics.watch_state(watch.what, watch.connected, watch.since);
                metrics.watch_panics(watch.what, watch.panics);
            }
        }));
    }

    /// Closes all ports, for the next daemon on this node.
    pub(super) fn close(&self) {
        self.status.close();
        self.page.iter().for_each(Page::close);
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(super) fn use_settings(&self, settings: &Settings) {
        let (healthz, metrics) = listen(settings);
        self.status.set_pages(pages(settings));
        self.status.set_build(build(settings));
        self.status.health.set_timeout(settings.sync_period * 2);
        if let (Some(server), Some(page)) = (&self.page, &settings.page) {
            _ = server.listen(page.listen()).inspect_err(|error| tracing::error!("{error}"));
        }
        let moved = self.status.listen_healthz(healthz).and_then(|()| self.status.listen_metrics(metrics));
        if let Err(error) = moved {
            tracing::error!("{error}");
            report_failure(self.events.as_ref(), &error);
        }
    }

    pub(super) fn note_facts(&mut self, facts: &Facts) {
        let changes = facts.take_changes();
        self.status.metrics.changes_received(changes.services as usize, changes.endpoints as usize);
        self.waiting_since = self.waiting_since.or(changes.oldest);
        self.causes.extend(changes.triggers);
        self.status.health.set_node_eligible(facts.is_node_eligible());
        self.status.health.set_watching(facts.is_watching());
    }

    /// When the first pending change arrived.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.waiting_since
    }

    /// The kernel holds the plan, and with it all pending changes.
    pub(super) fn note_sync(&mut self, report: &SyncReport, duration: Duration, plan: &Plan) {
        let SyncReport { objects, full, repaired, kernel_time, .. } = *report;
        self.status.synced(&Synced { is_full: full, duration, kernel_time, objects, repaired });
        if let Some(arrival) = self.waiting_since.take() {
            self.status.metrics.change_programmed(arrival.elapsed());
        }
        for (family, cause) in self.causes.take() {
            self.status.metrics.network_programmed(family, cause.elapsed().unwrap_or_default());
        }
        self.follow(plan);
    }

    /// What the iptables programs have written, in modes that use them.
    pub(super) fn note_rules(&self, tally: Option<RuleTally>) {
        let Some(tally) = tally else { return };
        let metrics = &self.status.metrics;
        for ((family, table), rules) in &tally.rules {
            let written = tally.written.get(&(*family, *table)).copied().unwrap_or(0);
            metrics.iptables_rules(*family, table.name(), *rules, written);
        }
        for family in Family::BOTH {
            let count = |failures: &BTreeMap<Family, u64>| failures.get(&family).copied().unwrap_or(0);
            metrics.iptables_failures(family, count(&tally.failures), count(&tally.partial_failures));
        }
    }

    pub(super) fn note_balancers(&self, failures: &BTreeMap<BalancerFailure, u64>) {
        for (BalancerFailure { call, family, kind, error }, count) in failures {
            let call = match call {
                BalancerCall::Create => LoadBalancerCall::Create,
                BalancerCall::Update => LoadBalancerCall::Update,
                BalancerCall::Delete => LoadBalancerCall::Delete,
            };
            self.status.metrics.load_balancer_failures(call, *family, kind, error, *count);
        }
    }

    fn follow(&self, plan: &Plan) {
        for failure in self.status.follow(plan) {
            tracing::error!("{failure}");
            if let Some(events) = &self.events {
                let note = failure.to_string();
                events.service_event(
                    &failure.service,
                    EventKind::Warning,
                    "FailedToStartServiceHealthcheck",
                    "Listen",
                    &note,
                );
            }
        }
    }

    pub(super) fn note_verdict(&self, verdict: &Verdict) {
        let Verdict { service, endpoint, quarantine } = verdict;
        let (kind, reason, text) = match quarantine {
            Some(time) => {
                let text = format!("endpoint {endpoint} does not answer: it gets no new connections for {time:?}");
                self.status.metrics.endpoint_quarantined();
                tracing::warn!("Service {service}: {text}");
                (EventKind::Warning, "EndpointQuarantined", text)
            }
            None => {
                let text = format!("endpoint {endpoint} gets new connections again");
                tracing::info!("Service {service}: {text}");
                (EventKind::Normal, "EndpointReleased", text)
            }
        };
        if let Some(events) = &self.events {
            events.service_event(service, kind, reason, "Balance", &text);
        }
    }

    /// Counts the walks of the connection table and the flows that they delete.
    pub(super) fn note_flows(&self) -> NoteWalk {
        let metrics = self.status.metrics.clone();
        Box::new(move |family, time, flows| metrics.flows_forgotten(family, time, flows))
    }

    /// Counts the connections that are reset.
    pub(super) fn note_resets(&self) -> NoteResets {
        let metrics = self.status.metrics.clone();
        Box::new(move |why, count| metrics.connections_reset(why.name(), count))
    }
}

fn options(settings: &Settings, read_traffic: ReadTraffic) -> Options {
    let (healthz, metrics) = listen(settings);
    Options {
        healthz,
        metrics,
        health_timeout: settings.sync_period * 2,
        build: build(settings),
        pages: pages(settings),
        read_traffic: Some(read_traffic),
        traffic_limits: TrafficLimits::default(),
        clock: Clock::real(),
    }
}

fn build(settings: &Settings) -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        kubernetes_version: KUBERNETES_VERSION.into(),
        mode: settings.traffic.mode.name().into(),
    }
}

fn listen(settings: &Settings) -> (Listen, Listen) {
    let at = |address| Listen { address, must_succeed: settings.bind_hard_fail };
    (at(settings.healthz), at(settings.metrics))
}

fn nowhere() -> Listen {
    Listen { address: None, must_succeed: false }
}

fn pages(settings: &Settings) -> Pages {
    Pages {
        configz: serde_json::json!({"kubeproxy.config.k8s.io": settings.document}),
        flagz: settings.flags.clone(),
        profiling: settings.profiling,
        set_verbosity: Arc::new(log::set_verbosity),
    }
}

fn report_failure(events: Option<&EventWriter>, error: &Error) {
    let Some(events) = events else { return };
    let (reason, action) = match error {
        Error::Healthz(_) => ("FailedToStartProxierHealthcheck", "StartKubeProxy"),
        Error::Metrics(_) => ("FailedToStartMetricServer", "StartKubeProxy"),
    };
    events.node_event(EventKind::Warning, reason, action, &error.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_bounded_while_syncs_fail() {
        let mut causes = Causes::default();
        for _ in 0..100 {
            causes.extend(vec![(Family::V4, SystemTime::UNIX_EPOCH); 999]);
        }
        assert_eq!(causes.take().len(), MOST_CAUSES);
        causes.extend(vec![(Family::V6, SystemTime::UNIX_EPOCH)]);
        assert_eq!(causes.take().len(), 1);
    }
}
