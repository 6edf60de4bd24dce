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
mod opening;
mod programming;
pub(crate) mod recorder;
pub(crate) mod runtime;
mod schedule;
mod shadow;
mod starting;
mod top;
pub(crate) mod traffic;
mod waiting;

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use anyhow::Context;
use portolan_dataplane::connections::ConnectionWorker;
use portolan_dataplane::mode::Mode;
use portolan_dataplane::peers::Takeover;
use portolan_dataplane::requirements::{self, Assessment};
use portolan_dataplane::{FlowWorker, SyncReport, Trust};
use portolan_kernel::signal::block_termination_signals;
use portolan_plan::{Plan, plan};

use crate::control::{Confirmation, Published};
use crate::dns::NodeNames;
use crate::exit::{PROXY_FAILURE, SUCCESS};
use crate::host;
use crate::node_setup::{self, Outcome};
use crate::settings::Settings;

use balancing::Balance;
use engine::Engine;
use events::{Event, WatchToken};
use facts::Facts;
use lacking::newly_lacking;
use leaving::Ending;
use observers::Observers;
use recorder::Recorder;
use schedule::{Periods, Schedule};
use waiting::Due;

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
    daemon.work(&receiver);
    Ok(SUCCESS)
}

/// What the kernel lacks for the mode. A trial of its features waits for an RCU grace period, so that it comes after the first
/// sync.
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
    is_kernel_logged: bool,
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

impl Daemon {
    fn work(&mut self, events: &Receiver<Event>) {
        self.read_facts_and_kernel();
        let mut due = Due::default();
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
            if !std::mem::replace(&mut self.is_kernel_logged, true) {
                log_kernel(self.settings.traffic.mode);
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
            self.facts.refresh();
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
                    // What was read for the comparison, and written for a repair, is free by now.
                    portolan_kernel::release_unused_memory();
                }
            }
            Err(error) => self.note_failure(&error),
        }
    }

    /// Both take long with many Services, and neither depends on the other: another thread reads the kernel while this one reads
    /// manifests, or the API server sends its objects.
    fn read_facts_and_kernel(&mut self) {
        let engine = &mut self.engine;
        thread::scope(|scope| {
            let reader = thread::Builder::new().name("kernel".into());
            // The first sync reads the kernel if there can be no thread for it.
            _ = reader.spawn_scoped(scope, || engine.read_ahead());
            self.facts.refresh();
        });
        portolan_kernel::release_unused_memory();
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
}
