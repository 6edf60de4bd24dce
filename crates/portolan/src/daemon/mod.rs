//! The run loop: facts → plan → kernel, for as long as the process lives.

mod engine;
pub(crate) mod events;
pub(crate) mod facts;
mod leaving;
mod names;
mod observers;
pub(crate) mod runtime;
mod shadow;
mod starting;
pub(crate) mod traffic;

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use portolan_dataplane::mode::Mode;
use portolan_dataplane::peers::Takeover;
use portolan_dataplane::{FlowWorker, SyncReport, Trust};
use portolan_kernel::signal::block_termination_signals;
use portolan_model::Family;
use portolan_plan::{Plan, plan};

use crate::control::Published;
use crate::dns::NodeNames;
use crate::exit::{PROXY_FAILURE, SUCCESS};
use crate::host;
use crate::loopback::LoopbackRouting;
use crate::node_setup;
use crate::settings::Settings;

use engine::Engine;
use events::{Event, Forget, WatchToken};
use facts::Facts;
use leaving::Ending;
use observers::Observers;

/// The first backoff after a failed sync; each further one doubles it, up to the sync period.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The least time between the repair of a foreign change and the next write.
const REPAIR_PAUSE: Duration = Duration::from_millis(200);
/// Events in the channel; a source blocks when it is full.
const EVENTS: usize = 64;

pub fn run(settings: Settings) -> anyhow::Result<u8> {
    let start = Instant::now();
    portolan_kernel::share_one_heap();
    if settings.shadow {
        return shadow::run(&settings);
    }
    let is_done = node_setup::apply(&settings);
    if settings.actions.init_only {
        return Ok(if is_done { SUCCESS } else { PROXY_FAILURE });
    }
    let signals = block_termination_signals().context("preparing for SIGTERM and SIGINT")?;
    let (sender, receiver) = sync_channel(EVENTS);
    events::watch_signals(signals, sender.clone())?;
    events::watch_addresses(sender.clone())?;
    events::watch_settings(settings.config_file.as_deref(), sender.clone())?;
    events::watch_settings(settings.dns_config_file(), sender.clone())?;
    let Some(mut daemon) = Daemon::start(settings, &receiver, sender, start)? else { return Ok(SUCCESS) };
    daemon.open_names();
    tracing::info!("Using {} Proxier.", daemon.settings.traffic.mode.name());
    daemon.work(&receiver);
    Ok(SUCCESS)
}

struct Daemon {
    settings: Settings,
    facts: Facts,
    addresses: Vec<IpAddr>,
    plan: Plan,
    engine: Engine,
    flows: FlowWorker,
    takeover: Takeover,
    observers: Observers,
    names: Option<NodeNames>,
    published: Arc<Mutex<Published>>,
    events: SyncSender<Event>,
    /// The least time until the next write.
    pause: Duration,
    retry: Duration,
    start: Instant,
    is_ready: bool,
    /// The watch on foreign changes; `None` until it is started for the active mode.
    watch: Option<WatchToken>,
    is_watch_started: bool,
}

/// What is due next.
#[derive(Default)]
struct Due {
    settings: bool,
    refresh: bool,
    trust: Trust,
    end: Option<Ending>,
}

impl Daemon {
    fn open(settings: Settings, events: SyncSender<Event>, start: Instant, is_replacing: bool) -> anyhow::Result<Self> {
        let runtime = runtime::start()?;
        let engine = Engine::open(&settings.traffic)?;
        let takeover = Takeover::new(engine.mode.owned());
        let facts = Facts::open(&settings.facts, &runtime, &events)?;
        let published = Arc::new(Mutex::new(Published {
            plan: None,
            settings: settings.clone(),
            listeners: engine.mode.listeners(),
            traffic_reader: engine.traffic_reader(),
        }));
        let read_traffic = traffic::reader(published.clone(), events.clone());
        let observers = Observers::open(&settings, &facts, runtime, read_traffic, is_replacing)?;
        let flows = FlowWorker::start(observers.note_flows()).context("opening the kernel's connection table")?;
        Ok(Self {
            facts,
            addresses: host::addresses(),
            plan: Plan::default(),
            engine,
            flows,
            takeover,
            observers,
            names: None,
            published,
            events,
            pause: settings.min_sync_period,
            retry: FIRST_RETRY,
            start,
            is_ready: false,
            watch: None,
            is_watch_started: false,
            settings,
        })
    }

    fn work(&mut self, events: &Receiver<Event>) {
        let mut due = Due { refresh: true, ..Due::default() };
        let ending = loop {
            if let Some(ending) = due.end.take() {
                break ending;
            }
            let next = self.turn(&due);
            if self.is_ready && !self.is_watch_started {
                self.start_watch();
                // Memory that only the start needs is free by now.
                portolan_kernel::release_unused_memory();
            }
            due = self.wait(events, Instant::now() + next);
        };
        self.leave(ending, events);
    }

    /// Starts after the first sync: while a process listens, the kernel describes every element that is written, which
    /// would double the time of the largest write. The sync after it finds foreign changes made in between.
    fn start_watch(&mut self) {
        self.is_watch_started = true;
        match self.watch_foreign_changes() {
            Ok(Some(synced)) => self.log_sync(&synced),
            Ok(None) => {}
            Err(error) => {
                let period = self.settings.sync_period;
                tracing::error!("{error:#}; foreign changes are found every {period:?} only");
            }
        }
    }

    fn watch_foreign_changes(&mut self) -> anyhow::Result<Option<SyncReport>> {
        let Some(watch) = self.engine.mode.watch()? else { return Ok(None) };
        self.watch = Some(events::watch_foreign_changes(watch, self.events.clone())?);
        self.program(Trust::Generation).map(Some)
    }

    /// Does what is due. Returns the time until the next call.
    fn turn(&mut self, due: &Due) -> Duration {
        if due.settings {
            self.change_settings();
        }
        if due.refresh {
            self.refresh();
        }
        if !self.make_plan() {
            return self.settings.sync_period;
        }
        match self.program(due.trust) {
            Ok(synced) => {
                self.retry = FIRST_RETRY;
                // Two processes that undo each other's changes must not keep the machine busy.
                let is_repair = due.trust == Trust::Nothing;
                let least = self.settings.min_sync_period;
                self.pause = if is_repair { least.max(REPAIR_PAUSE) } else { least };
                self.facts.keep();
                self.log_sync(&synced);
                self.take_over();
                self.close_retired();
                if let Some(failure) = synced.failure {
                    return self.note_failure(&anyhow::Error::msg(failure));
                }
                if synced.unfinished { Duration::ZERO } else { self.settings.sync_period }
            }
            Err(error) => self.note_failure(&error),
        }
    }

    /// Removes the rules of kube-proxy and of other modes, once ours are in force.
    fn take_over(&mut self) {
        let Some(report) = self.takeover.step() else { return };
        report.removed.iter().for_each(|what| tracing::info!("takeover: removed {what}"));
        report.kept.iter().for_each(|what| tracing::warn!("takeover: kept {what}"));
        report.failed.iter().for_each(|what| tracing::error!("takeover: {what}; retrying"));
    }

    /// Closes the listeners of earlier modes once the takeover has removed the rules that lead to them.
    fn close_retired(&mut self) {
        if self.takeover.is_done()
            && let Err(error) = self.engine.close_retired()
        {
            tracing::error!("closing the listeners of the previous mode: {error:#}");
        }
    }

    fn note_failure(&mut self, error: &anyhow::Error) -> Duration {
        let wait = self.retry.min(self.settings.sync_period);
        tracing::error!("programming the kernel: {error:#}; retrying in {wait:?}");
        self.observers.status.sync_failed();
        self.retry = (self.retry * 2).min(self.settings.sync_period);
        wait
    }

    fn refresh(&mut self) {
        self.facts.refresh();
        if !self.is_ready {
            // The first read leaves free memory behind; returned now, it does not add to the peak of the first sync.
            portolan_kernel::release_unused_memory();
        }
    }

    /// Returns whether there is a plan. Until all facts are known there is none, and the rules of an earlier daemon stay.
    fn make_plan(&mut self) -> bool {
        self.observers.note_facts(&self.facts);
        let Some(mut snapshot) = self.facts.snapshot() else { return false };
        host::add_addresses(&mut snapshot, &self.addresses, self.settings.bind_address);
        self.plan = plan(&snapshot, &self.plan, &self.settings.traffic.plan);
        true
    }

    /// Puts the plan into the kernel. Names are withdrawn before the rules that serve them go, and published after.
    fn program(&mut self, trust: Trust) -> anyhow::Result<SyncReport> {
        let begin = Instant::now();
        self.withdraw_names();
        self.follow_loopback(false);
        let outcome = self.engine.sync(&self.plan, trust);
        self.observers.note_rules(self.engine.mode.rule_tally());
        let report = outcome?;
        self.observers.note_sync(&report, begin.elapsed(), &self.plan);
        self.flows.follow(&report.changes, &self.plan);
        self.follow_loopback(true);
        self.publish(|published, daemon| published.plan = Some(daemon.plan.clone()));
        self.publish_names();
        Ok(report)
    }

    /// Packets from 127.0.0.1 may leave the node only while the rules keep others from coming in.
    fn follow_loopback(&self, is_synced: bool) {
        let routing = LoopbackRouting::beside(&self.settings.control_socket);
        let outcome = match (self.plan.node.family(Family::V4).loopback_node_ports, is_synced) {
            (true, true) => routing.allow(),
            (false, false) => routing.restore().map(drop),
            _ => Ok(()),
        };
        outcome.unwrap_or_else(|error| tracing::error!("{error:#}"));
    }

    fn publish(&self, change: impl FnOnce(&mut Published, &Self)) {
        change(&mut self.published.lock().expect("no thread panics while publishing"), self);
    }

    /// Puts the changed configuration file in force. An invalid file changes nothing.
    fn change_settings(&mut self) {
        match self.settings.read_again() {
            Ok(settings) if settings.document == self.settings.document => self.change_names(settings.dns),
            Ok(settings) => self.use_settings(settings),
            Err(error) => {
                tracing::error!("the new configuration is not used: {error:#}");
                self.observers.status.metrics.config_reloaded(false);
            }
        }
    }

    fn use_settings(&mut self, mut settings: Settings) {
        tracing::info!("the configuration has changed");
        crate::log::set(&settings.log);
        crate::log::notices(&settings.notices);
        if settings.traffic.mode != self.settings.traffic.mode {
            let mode = self.change_mode(&settings);
            settings.traffic.use_mode(mode);
        } else if let Err(error) = self.engine.mode.use_settings(&settings.traffic.mode_settings) {
            let name = settings.traffic.mode.name();
            tracing::error!("the new settings of mode {name} are not used: {error}");
            settings.traffic.mode_settings = self.settings.traffic.mode_settings.clone();
        }
        if settings.facts != self.settings.facts {
            self.change_facts(&settings);
        }
        let dns = std::mem::replace(&mut settings.dns, self.settings.dns.take());
        self.settings = settings;
        self.change_names(dns);
        node_setup::apply(&self.settings);
        self.observers.use_settings(&self.settings);
        self.publish(|published, daemon| published.settings = daemon.settings.clone());
        self.observers.status.metrics.config_reloaded(true);
    }

    /// The new mode's rules are written first; then the takeover removes the old ones. Returns the mode that is active now.
    fn change_mode(&mut self, settings: &Settings) -> &'static dyn Mode {
        let (old, new) = (self.settings.traffic.mode, settings.traffic.mode);
        tracing::info!("changing from mode {} to mode {}", old.name(), new.name());
        if let Err(error) = self.engine.change_mode(&settings.traffic) {
            tracing::error!("the mode stays {}: {error:#}", old.name());
            return old;
        }
        self.takeover = Takeover::new(self.engine.mode.owned());
        (self.watch, self.is_watch_started) = (None, false);
        self.publish(|published, daemon| {
            published.listeners = daemon.engine.mode.listeners();
            published.traffic_reader = daemon.engine.traffic_reader();
        });
        new
    }

    /// The plan of the old source stays in force until the new one has synced.
    fn change_facts(&mut self, settings: &Settings) {
        match Facts::open(&settings.facts, self.observers.runtime(), &self.events) {
            Ok(facts) => {
                self.observers.follow_watches(&facts);
                self.facts = facts;
            }
            Err(error) => tracing::error!("the new source of facts is not used: {error:#}"),
        }
    }

    fn log_sync(&mut self, synced: &SyncReport) {
        if synced.repaired > 0 {
            tracing::warn!("repaired {} objects that another process had changed", synced.repaired);
        }
        if synced.objects > 0 {
            let SyncReport { objects, services, kernel_time, .. } = synced;
            tracing::debug!("wrote {objects} objects of {services} Service ports in {kernel_time:?}");
        }
        if !self.is_ready {
            self.is_ready = true;
            portolan_kernel::release_unused_memory();
            let resident = portolan_kernel::resident_bytes().unwrap_or(0) / 1_000_000;
            tracing::info!(
                "ready: {} Service ports, {} objects written, {} ms after the start, {} ms of it in the kernel, {resident} MB resident",
                self.plan.services.len(),
                synced.objects,
                self.start.elapsed().as_millis(),
                synced.kernel_time.as_millis(),
            );
        }
    }

    /// Waits until something is due, and gathers the events that arrive before the next write is allowed.
    fn wait(&mut self, events: &Receiver<Event>, deadline: Instant) -> Due {
        let earliest = Instant::now() + self.pause;
        let mut due = Due::default();
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(event) => self.note(event, &mut due),
            Err(RecvTimeoutError::Timeout) => {
                due = Due { refresh: true, trust: Trust::Generation, ..Due::default() };
            }
            Err(RecvTimeoutError::Disconnected) => due.end = Some(Ending::Stopped),
        }
        while due.end.is_none() {
            match events.recv_timeout(earliest.saturating_duration_since(Instant::now())) {
                Ok(event) => self.note(event, &mut due),
                Err(_) => break,
            }
        }
        due
    }

    fn forget(&mut self, forget: &Forget) {
        _ = forget.done.send(self.engine.mode.forget_counts(&forget.pairs));
    }

    fn note(&mut self, event: Event, due: &mut Due) {
        self.observers.status.sync_queued();
        match event {
            Event::Facts => due.refresh = true,
            Event::Settings => due.settings = true,
            Event::Addresses(addresses) => self.addresses = addresses,
            Event::Stop => due.end = Some(Ending::Stopped),
            // A process that has given up waiting does not take over.
            Event::Replaced(replacement) if replacement.stopped.send(()).is_ok() => {
                due.end = Some(Ending::Replaced(replacement));
            }
            Event::Replaced(_) => tracing::warn!("another process requested a takeover and has given up waiting"),
            Event::Forget(forget) => self.forget(&forget),
            Event::Foreign(what) => {
                if due.trust != Trust::Nothing {
                    tracing::warn!("{what}; comparing with the plan");
                }
                due.trust = Trust::Nothing;
            }
        }
    }
}
