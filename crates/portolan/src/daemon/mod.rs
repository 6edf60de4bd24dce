//! The run loop: facts → plan → kernel, for as long as the process lives.

mod balancing;
mod changing;
mod connection_table;
mod engine;
pub(crate) mod events;
pub(crate) mod facts;
pub(crate) mod history;
mod lacking;
mod leaving;
mod loads;
mod names;
mod observers;
pub(crate) mod recorder;
pub(crate) mod runtime;
mod schedule;
mod shadow;
mod starting;
mod top;
pub(crate) mod traffic;

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context;
use portolan_balance::Sighting;
use portolan_dataplane::connections::ConnectionWorker;
use portolan_dataplane::mode::Mode;
use portolan_dataplane::peers::Takeover;
use portolan_dataplane::requirements::{self, Assessment};
use portolan_dataplane::{FlowWorker, SyncReport, Trust};
use portolan_kernel::signal::block_termination_signals;
use portolan_model::Family;
use portolan_plan::{Plan, plan};

use crate::control::{Confirmation, Published};
use crate::dns::NodeNames;
use crate::exit::{PROXY_FAILURE, SUCCESS};
use crate::host;
use crate::loopback::LoopbackRouting;
use crate::node_setup::{self, Outcome};
use crate::page::{self, Live};
use crate::settings::Settings;

use balancing::Balance;
use engine::Engine;
use events::{Event, Forget, WatchToken};
use facts::Facts;
use lacking::newly_lacking;
use leaving::Ending;
use observers::Observers;
use recorder::Recorder;
use schedule::{Periods, Schedule, Urgency};
use top::Top;

/// Events in the channel; a source blocks when it is full.
const EVENTS: usize = 64;

pub fn run(settings: Settings) -> anyhow::Result<u8> {
    let start = Instant::now();
    portolan_kernel::share_one_heap();
    if settings.shadow {
        return shadow::run(&settings);
    }
    let setup = node_setup::apply(&settings);
    if setup == Outcome::Waiting {
        tracing::info!("the kernel has no connection tracking yet: its limits are set after the first sync");
    }
    if settings.actions.init_only {
        return Ok(if setup == Outcome::Failed { PROXY_FAILURE } else { SUCCESS });
    }
    let signals = block_termination_signals().context("preparing for SIGTERM and SIGINT")?;
    let (sender, receiver) = sync_channel(EVENTS);
    events::watch_signals(signals, sender.clone())?;
    events::watch_addresses(sender.clone())?;
    connection_table::watch()?;
    events::watch_settings(settings.config_file.as_deref(), sender.clone())?;
    events::watch_settings(settings.dns_config_file(), sender.clone())?;
    let Some(mut daemon) = Daemon::start(settings, &receiver, sender, start)? else { return Ok(SUCCESS) };
    daemon.setup = setup;
    daemon.open_names();
    tracing::info!("Using {} Proxier.", daemon.settings.traffic.mode.name());
    log_kernel(daemon.settings.traffic.mode);
    daemon.work(&receiver);
    Ok(SUCCESS)
}

/// What the kernel lacks for the mode.
fn log_kernel(mode: &dyn Mode) {
    match requirements::assess(mode.name(), mode.features(), mode.missing()) {
        Assessment { text, is_warning: true } => tracing::warn!("{text}"),
        Assessment { text, .. } => tracing::info!("{text}"),
    }
}

struct Daemon {
    settings: Settings,
    facts: Facts,
    addresses: Vec<IpAddr>,
    plan: Plan,
    engine: Engine,
    flows: FlowWorker,
    connections: ConnectionWorker,
    balance: Balance,
    takeover: Takeover,
    observers: Observers,
    recorder: Recorder,
    names: Option<NodeNames>,
    published: Arc<Mutex<Published>>,
    events: SyncSender<Event>,
    schedule: Schedule,
    start: Instant,
    is_ready: bool,
    setup: Outcome,
    /// The watch on foreign changes; `None` until it is started for the active mode.
    watch: Option<WatchToken>,
    is_watch_started: bool,
    /// Sent to the daemon that this one has replaced, once this one serves.
    confirmation: Option<Confirmation>,
    /// Why `route_localnet` is not as the plan has it, as logged.
    loopback_problem: Option<String>,
    /// What another program has to create before anything can be programmed, as logged.
    awaited: Option<String>,
}

/// What is due next.
#[derive(Default)]
struct Due {
    settings: bool,
    refresh: bool,
    trust: Trust,
    end: Option<Ending>,
    urgency: Urgency,
}

impl Daemon {
    fn open(settings: Settings, events: SyncSender<Event>, start: Instant, is_replacing: bool) -> anyhow::Result<Self> {
        let runtime = runtime::start()?;
        let engine = Engine::open(&settings.traffic)?;
        let takeover = Takeover::new(engine.mode.owned());
        let facts = Facts::open(&settings.facts, &runtime, &events)?;
        let recorder = Recorder::default();
        let published = Arc::new(Mutex::new(Published {
            plan: None,
            history: recorder.history(),
            settings: settings.clone(),
            listeners: engine.mode.listeners(),
            traffic_reader: engine.traffic_reader(),
            node: facts.node_lookup(),
            page: None,
            watches: facts.watch_states(),
            health: None,
            top: None,
        }));
        let read_traffic = traffic::reader(published.clone(), events.clone());
        let top = Top::new(published.clone(), events.clone());
        let live = Arc::new(Live::new(events.clone()));
        let ask = page::of_daemon(published.clone(), live.clone());
        {
            let mut published = published.lock().expect("no other thread has it yet");
            (published.top, published.page) = (Some(top.answerer()), Some(ask.clone()));
        }
        let rest = move || {
            top.rest();
            live.rest();
        };
        traffic::reclaim(read_traffic.clone(), rest, traffic::RECLAIM_EVERY)?;
        let observers = Observers::open(&settings, &facts, runtime, read_traffic, ask, is_replacing)?;
        published.lock().expect("no thread panics while publishing").health = Some(observers.status.health.clone());
        let flows = FlowWorker::start(observers.note_flows()).context("opening the kernel's connection table")?;
        let connections = ConnectionWorker::start(observers.note_resets())?;
        Ok(Self {
            facts,
            addresses: host::addresses(),
            plan: Plan::default(),
            engine,
            flows,
            connections,
            balance: Balance::new(start, events.clone()),
            takeover,
            observers,
            recorder,
            names: None,
            published,
            events,
            schedule: Schedule::new(Instant::now()),
            start,
            is_ready: false,
            setup: Outcome::Done,
            watch: None,
            is_watch_started: false,
            confirmation: None,
            loopback_problem: None,
            awaited: None,
            settings,
        })
    }

    fn work(&mut self, events: &Receiver<Event>) {
        let mut due = Due { refresh: true, ..Due::default() };
        loop {
            let ending = self.work_until_the_end(due, events);
            if self.leave(ending, events) {
                return;
            }
            due = Due { settings: true, refresh: true, trust: Trust::Nothing, ..Due::default() };
        }
    }

    fn work_until_the_end(&mut self, mut due: Due, events: &Receiver<Event>) -> Ending {
        loop {
            if let Some(ending) = due.end.take() {
                return ending;
            }
            self.turn(&due);
            if self.is_ready && !self.is_watch_started {
                self.confirmation.take().into_iter().for_each(Confirmation::send);
                self.start_watch();
                // Memory that only the start needs is free by now.
                portolan_kernel::release_unused_memory();
            }
            due = self.wait(events);
        }
    }

    /// Starts after the first sync: while a process listens, the kernel describes every element that is written, which
    /// would double the time of the largest write. The sync after it finds foreign changes made in between.
    fn start_watch(&mut self) {
        self.is_watch_started = true;
        match self.watch_foreign_changes() {
            Ok(synced) => self.log_sync(&synced),
            Err(error) => {
                let period = self.settings.sync_period;
                tracing::error!("{error:#}; foreign changes are found every {period:?} only");
            }
        }
    }

    fn watch_foreign_changes(&mut self) -> anyhow::Result<SyncReport> {
        let watch = self.engine.mode.watch()?;
        self.watch = Some(events::watch_foreign_changes(watch, self.events.clone())?);
        self.program(Trust::Generation)
    }

    fn periods(&self) -> Periods {
        Periods { sync: self.settings.sync_period, least: self.settings.min_sync_period }
    }

    /// Does what is due.
    fn turn(&mut self, due: &Due) {
        if due.settings {
            self.change_settings();
        }
        if due.refresh {
            self.refresh();
        }
        if !self.make_plan() {
            return self.schedule.wait_for_facts(Instant::now(), self.periods());
        }
        match self.program(due.trust) {
            Ok(synced) => {
                self.awaited = None;
                self.note_success(&synced, due.trust);
                self.facts.keep();
                self.log_sync(&synced);
                self.take_over();
                self.close_retired();
                if synced.full || due.trust != Trust::Memory {
                    self.set_up_again();
                }
            }
            Err(error) => self.note_failure(&error),
        }
    }

    /// One family may have failed while the other is in force.
    fn note_success(&mut self, synced: &SyncReport, trust: Trust) {
        if let Some(failure) = &synced.failure {
            return self.note_failure(&anyhow::Error::msg(failure.clone()));
        }
        let was_compared = synced.full || trust > Trust::Notified;
        self.schedule.succeeded(Instant::now(), self.periods(), was_compared);
        if trust == Trust::Notified {
            self.schedule.repaired(Instant::now());
        }
        if synced.unfinished {
            self.schedule.continue_at(Instant::now());
        }
    }

    /// The rules that were written have loaded what the setup waits for.
    fn set_up_again(&mut self) {
        if self.setup == Outcome::Waiting {
            self.setup = node_setup::apply(&self.settings);
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

    fn note_failure(&mut self, error: &anyhow::Error) {
        if error.downcast_ref().is_some_and(portolan_dataplane::Error::is_awaited) {
            return self.note_awaited(error.to_string());
        }
        let wait = self.schedule.failed(Instant::now(), self.periods());
        tracing::error!("programming the kernel: {error:#}; retrying in {wait:?}");
        self.recorder.note_failure(&format!("{error:#}"));
        self.observers.status.sync_failed();
    }

    /// It is looked for every second, and the log says so once.
    fn note_awaited(&mut self, what: String) {
        self.schedule.look_again(Instant::now(), self.periods());
        if self.awaited.as_ref() != Some(&what) {
            tracing::warn!("{what}; waiting for it");
            self.recorder.note_failure(&what);
        }
        self.awaited = Some(what);
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
        let config = &self.settings.traffic.plan;
        self.balance.observe(&mut snapshot, &config.balancing, !config.limits.counts_connections());
        let planned = plan(&snapshot, &self.plan, config);
        for (service, (asked, used)) in newly_lacking(&self.plan, &planned) {
            let (mode, asked, used) = (self.settings.traffic.mode.name(), asked.name(), used.name());
            tracing::warn!("Service {service}: {mode} mode does not have the algorithm {asked}; it uses {used}");
        }
        self.plan = planned;
        true
    }

    /// Puts the plan into the kernel. Names are withdrawn before the rules that serve them go, and published after.
    fn program(&mut self, trust: Trust) -> anyhow::Result<SyncReport> {
        let begin = Instant::now();
        self.withdraw_names();
        self.follow_loopback(false);
        let outcome = self.engine.sync(&self.plan, trust);
        self.observers.note_rules(self.engine.mode.rule_tally());
        self.observers.note_balancers(&self.engine.mode.balancer_failures());
        self.observers.status.metrics.unaccelerated_frontends(self.engine.mode.unaccelerated_frontends());
        let report = outcome?;
        let arrival = self.observers.waiting_since();
        self.observers.note_sync(&report, begin.elapsed(), &self.plan);
        self.flows.follow(&report, &self.plan);
        self.connections.follow(&report, &self.plan, self.engine.mode.listeners(), self.engine.retired());
        self.follow_loopback(true);
        self.publish(|published, daemon| published.plan = Some(daemon.plan.clone()));
        // After the plan, which readers of the change look at.
        self.recorder.note_sync(&self.plan, &report, arrival);
        self.publish_names();
        Ok(report)
    }

    /// Packets from 127.0.0.1 may leave the node only while the rules keep others from coming in.
    fn follow_loopback(&mut self, is_synced: bool) {
        let routing = LoopbackRouting::beside(&self.settings.control_socket);
        let outcome = match (self.plan.node.family(Family::V4).loopback_node_ports, is_synced) {
            (true, true) => routing.allow(),
            (false, false) => routing.restore().map(drop),
            _ => return,
        };
        let problem = outcome.err().map(|error| format!("{error:#}"));
        // Every sync tries again.
        if let Some(problem) = problem.as_ref().filter(|_| problem != self.loopback_problem) {
            tracing::error!("{problem}");
        }
        self.loopback_problem = problem;
    }

    fn publish(&self, change: impl FnOnce(&mut Published, &Self)) {
        change(&mut self.published.lock().expect("no thread panics while publishing"), self);
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

    /// Gathers events until the next turn is due. Those that are queued by then are part of it.
    fn wait(&mut self, events: &Receiver<Event>) -> Due {
        let mut due = Due::default();
        let mut late = 0;
        // A source that never stops sending must not delay the turn.
        while due.end.is_none() && late <= EVENTS {
            let next = self.schedule.next(due.urgency, self.balance.next());
            let left = next.saturating_duration_since(Instant::now());
            late += usize::from(left.is_zero());
            match events.recv_timeout(left) {
                Ok(event) => self.note(event, &mut due),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => due.end = Some(Ending::Stopped),
            }
        }
        if self.schedule.is_comparison_due(Instant::now()) {
            due.trust = due.trust.max(Trust::Generation);
            due.refresh = true;
        }
        due
    }

    /// Returns whether the plan changes. What does not answer is left out at once.
    fn note_sighting(&mut self, sighting: Sighting, due: &mut Due) -> bool {
        let (verdicts, is_changed) = self.balance.note(sighting, |client| self.plan.is_inside(client));
        verdicts.iter().for_each(|verdict| self.observers.note_verdict(verdict));
        if !verdicts.is_empty() {
            due.urgency = Urgency::Repair;
        }
        is_changed
    }

    fn forget(&mut self, forget: &Forget) {
        _ = forget.done.send(self.engine.mode.forget_counts(&forget.pairs));
    }

    fn note(&mut self, event: Event, due: &mut Due) {
        if self.is_news(event, due) {
            self.recorder.note_event();
            self.observers.status.sync_queued();
            due.urgency = due.urgency.max(Urgency::Change);
        }
    }

    /// Returns whether there is something to sync.
    fn is_news(&mut self, event: Event, due: &mut Due) -> bool {
        match event {
            Event::Facts => due.refresh = true,
            Event::Settings => due.settings = true,
            Event::Addresses(addresses) => self.addresses = addresses,
            Event::Stop => due.end = Some(Ending::Stopped),
            Event::Replaced(replacement) => due.end = self.give_way(replacement),
            Event::Forget(forget) => self.forget(&forget),
            Event::Sighting(sighting) => return self.note_sighting(*sighting, due),
            // A sync has repaired it since it was noticed.
            Event::Foreign(change) if change.is_compared() => return false,
            Event::Foreign(change) => {
                if due.urgency != Urgency::Repair {
                    tracing::warn!("{change}; comparing with the plan");
                }
                self.recorder.note_drift(&change);
                (due.trust, due.urgency) = (due.trust.max(change.trust()), Urgency::Repair);
            }
        }
        true
    }
}
