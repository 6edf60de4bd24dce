//! The run loop: facts → plan → kernel, for as long as the process lives.

pub(crate) mod events;
pub(crate) mod facts;
mod leaving;
mod names;
pub(crate) mod programmer;
pub(crate) mod runtime;
mod shadow;
mod surroundings;
pub(crate) mod traffic;

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use portolan_dataplane::SyncReport;
use portolan_dataplane::peers::Takeover;
use portolan_dataplane::userspace::NamedSocket;
use portolan_kernel::signal::block_termination_signals;
use portolan_plan::{Plan, plan};

use crate::commands::{FAILURE, SUCCESS};
use crate::control::{self, Published};
use crate::dns::Names;
use crate::duties;
use crate::flags::Mode;
use crate::host;
use crate::settings::Settings;

use events::Event;
use facts::Facts;
use leaving::Ending;
use programmer::{Programmer, Trust};
use surroundings::Surroundings;
use traffic::Forget;

/// The first wait before a failed sync is tried again; each further one doubles it, up to the sync period.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The least time between a repair of what somebody else did and the next write.
const REPAIR_PAUSE: Duration = Duration::from_millis(200);
/// Events that may wait; a source that has more to tell waits itself.
const EVENTS: usize = 64;

pub fn run(settings: Settings) -> anyhow::Result<u8> {
    let start = Instant::now();
    portolan_kernel::share_one_heap();
    if settings.shadow {
        return shadow::run(&settings);
    }
    let is_done = duties::perform(&settings);
    if settings.actions.init_only {
        return Ok(if is_done { SUCCESS } else { FAILURE });
    }
    let signals = block_termination_signals().context("preparing for SIGTERM and SIGINT")?;
    let (sender, receiver) = sync_channel(EVENTS);
    events::watch_signals(signals, sender.clone())?;
    events::watch_addresses(sender.clone())?;
    events::watch_settings(settings.config_file.as_deref(), sender.clone())?;
    let inherited = if settings.replace { control::replace(&settings.control_socket)? } else { None };
    let is_replacing = inherited.is_some();
    let mut daemon = Daemon::open(settings, inherited.unwrap_or_default(), sender, start)?;
    daemon.answer_questions(is_replacing)?;
    daemon.open_names();
    tracing::info!("Using {} Proxier.", daemon.settings.mode.name());
    daemon.work(&receiver);
    Ok(SUCCESS)
}

struct Daemon {
    settings: Settings,
    facts: Facts,
    addresses: Vec<IpAddr>,
    plan: Plan,
    programmer: Programmer,
    takeover: Takeover,
    surroundings: Surroundings,
    names: Option<Names>,
    published: Arc<Mutex<Published>>,
    events: SyncSender<Event>,
    /// The least time until the next write.
    pause: Duration,
    retry: Duration,
    start: Instant,
    is_ready: bool,
    watches_kernel: bool,
}

/// What has to be done next.
#[derive(Default)]
struct Due {
    settings: bool,
    refresh: bool,
    trust: Trust,
    end: Option<Ending>,
}

impl Daemon {
    fn open(
        settings: Settings,
        inherited: Vec<NamedSocket>,
        events: SyncSender<Event>,
        start: Instant,
    ) -> anyhow::Result<Self> {
        let runtime = runtime::start()?;
        let mut programmer = Programmer::open(settings.mode_settings())?;
        programmer.adopt(inherited)?;
        let takeover = Takeover::new(programmer.successor());
        let facts = Facts::open(&settings.facts, &runtime, &events)?;
        let published =
            Arc::new(Mutex::new(Published { plan: None, settings: settings.clone(), doors: programmer.doors() }));
        let read_traffic = traffic::reader(published.clone(), events.clone())?;
        let surroundings = Surroundings::open(&settings, &facts, runtime, read_traffic)?;
        Ok(Self {
            facts,
            addresses: host::addresses(),
            plan: Plan::default(),
            programmer,
            takeover,
            surroundings,
            names: None,
            published,
            events,
            pause: settings.min_sync_period,
            retry: FIRST_RETRY,
            start,
            is_ready: false,
            watches_kernel: false,
            settings,
        })
    }

    /// A second daemon on the same socket is refused: the two would undo each other's work.
    fn answer_questions(&self, is_replacing: bool) -> anyhow::Result<()> {
        let path = &self.settings.control_socket;
        if !is_replacing && control::is_answered(path) {
            bail!(
                "another portolan proxy answers at {}: stop it, take its place with --replace, or use another \
                 --control-socket",
                path.display()
            );
        }
        let events = self.events.clone();
        let replaced = move |replacement| _ = events.send(Event::Replaced(replacement));
        control::serve(path, self.published.clone(), Box::new(replaced));
        Ok(())
    }

    fn work(&mut self, events: &Receiver<Event>) {
        let mut due = Due { refresh: true, ..Due::default() };
        let ending = loop {
            if let Some(ending) = due.end.take() {
                break ending;
            }
            let next = self.turn(&due);
            if self.is_ready && !self.watches_kernel {
                self.watch_kernel();
                // All that only a start needs has been done by now.
                portolan_kernel::release_unused_memory();
            }
            due = self.wait(events, Instant::now() + next);
        };
        self.leave(ending, events);
    }

    /// Begins only after the first sync: while anybody listens, the kernel describes every element that is written,
    /// which would double the time of the largest write of all. What others did meanwhile shows in the check.
    fn watch_kernel(&mut self) {
        self.watches_kernel = true;
        let Some(port_id) = self.programmer.port_id() else { return };
        let watched = events::watch_kernel(port_id, self.events.clone());
        self.watches_kernel = watched.is_ok();
        match watched.and_then(|()| self.sync(Trust::NobodyElseWrote)) {
            Ok(synced) => self.tell(&synced),
            Err(error) => {
                let period = self.settings.sync_period;
                tracing::error!("{error:#}; changes by others are noticed every {period:?} only");
            }
        }
    }

    /// Does what is due, and tells when to look again at the latest.
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
        match self.sync(due.trust) {
            Ok(synced) => {
                self.retry = FIRST_RETRY;
                // Two who undo each other's changes must not keep the machine busy.
                let is_repair = due.trust == Trust::Nothing;
                let least = self.settings.min_sync_period;
                self.pause = if is_repair { least.max(REPAIR_PAUSE) } else { least };
                self.facts.keep();
                self.tell(&synced);
                self.take_over();
                self.close_retired();
                self.settings.sync_period
            }
            Err(error) => self.note_failure(&error),
        }
    }

    /// kube-proxy's rules go once ours are in force.
    fn take_over(&mut self) {
        let Some(report) = self.takeover.step() else { return };
        report.removed.iter().for_each(|what| tracing::info!("taking over from kube-proxy: removed {what}"));
        report.kept.iter().for_each(|what| tracing::warn!("taking over from kube-proxy: kept {what}"));
        report.failed.iter().for_each(|what| tracing::error!("taking over from kube-proxy: {what}; trying again"));
    }

    /// Once nothing leads to the listeners of a mode that was left.
    fn close_retired(&mut self) {
        if self.takeover.is_done()
            && let Err(error) = self.programmer.close_retired()
        {
            tracing::error!("closing the listeners of the mode before: {error:#}");
        }
    }

    fn note_failure(&mut self, error: &anyhow::Error) -> Duration {
        let wait = self.retry.min(self.settings.sync_period);
        tracing::error!("programming the kernel: {error:#}; trying again in {wait:?}");
        self.surroundings.status.sync_failed();
        self.retry = (self.retry * 2).min(self.settings.sync_period);
        wait
    }

    fn refresh(&mut self) {
        self.facts.refresh();
        if !self.is_ready {
            // Reading everything for the first time leaves holes that the first sync had better not stand beside.
            portolan_kernel::release_unused_memory();
        }
    }

    /// Tells whether there is a plan: until all facts are known there is none, and rules of an earlier life stay.
    fn make_plan(&mut self) -> bool {
        self.surroundings.note_facts(&self.facts);
        let Some(mut snapshot) = self.facts.snapshot() else { return false };
        host::add_addresses(&mut snapshot, &self.addresses, self.settings.bind_address);
        self.plan = plan(&snapshot, &self.plan, &self.settings.plan);
        true
    }

    fn sync(&mut self, trust: Trust) -> anyhow::Result<SyncReport> {
        let begin = Instant::now();
        self.withdraw_names();
        let outcome = self.programmer.sync(&self.plan, trust);
        self.surroundings.note_rules(self.programmer.rule_tally());
        let report = outcome?;
        self.surroundings.note_sync(&report, begin.elapsed(), &self.plan);
        match self.programmer.forget_flows(&self.plan) {
            Ok(forgotten) => self.surroundings.note_forgotten(&forgotten),
            Err(error) => tracing::error!("forgetting stale UDP flows: {error:#}; trying again with the next sync"),
        }
        self.published.lock().expect("nobody panics while publishing").plan = Some(self.plan.clone());
        self.publish_names();
        Ok(report)
    }

    /// Takes over what the configuration file says now. A file that cannot be used changes nothing.
    fn change_settings(&mut self) {
        match self.settings.read_again() {
            Ok(settings) if settings.document == self.settings.document => {}
            Ok(settings) => self.use_settings(settings),
            Err(error) => {
                tracing::error!("the new configuration is not used: {error:#}");
                self.surroundings.status.metrics.config_reloaded(false);
            }
        }
    }

    fn use_settings(&mut self, mut settings: Settings) {
        tracing::info!("the configuration has changed");
        crate::log::set(&settings.log);
        crate::log::tell(&settings.notices);
        if settings.mode != self.settings.mode {
            settings.mode = self.change_mode(&settings);
            settings.plan.relayed = settings.mode == Mode::Userspace;
            settings.plan.virtual_servers = settings.mode == Mode::Ipvs;
        } else if settings.mode_settings() != self.settings.mode_settings() {
            self.programmer.use_settings(settings.mode_settings());
        }
        if settings.facts != self.settings.facts {
            self.change_facts(&settings);
        }
        self.settings = settings;
        duties::perform(&self.settings);
        self.surroundings.use_settings(&self.settings);
        self.published.lock().expect("nobody panics while publishing").settings = self.settings.clone();
        self.surroundings.status.metrics.config_reloaded(true);
    }

    /// The new mode's rules come first; once they are in force, those of the old one go. Tells which mode it is now.
    fn change_mode(&mut self, settings: &Settings) -> Mode {
        tracing::info!("changing from mode {} to mode {}", self.settings.mode.name(), settings.mode.name());
        match self.programmer.change_mode(settings.mode_settings()) {
            Ok(()) => {
                self.takeover = Takeover::new(self.programmer.successor());
                self.published.lock().expect("nobody panics while publishing").doors = self.programmer.doors();
                self.watches_kernel = false;
                settings.mode
            }
            Err(error) => {
                tracing::error!("the mode stays as it is: {error:#}");
                self.settings.mode
            }
        }
    }

    /// Until the new source knows everything, the plan of the old one stays in force.
    fn change_facts(&mut self, settings: &Settings) {
        match Facts::open(&settings.facts, self.surroundings.runtime(), &self.events) {
            Ok(facts) => {
                self.surroundings.follow_watches(&facts);
                self.facts = facts;
            }
            Err(error) => tracing::error!("the new source of facts is not used: {error:#}"),
        }
    }

    fn tell(&mut self, synced: &SyncReport) {
        if synced.repaired > 0 {
            tracing::warn!("repaired {} objects that somebody had changed", synced.repaired);
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

    /// Waits for events until something is due, and gathers those that come within the least time between two writes.
    fn wait(&mut self, events: &Receiver<Event>, deadline: Instant) -> Due {
        let earliest = Instant::now() + self.pause;
        let mut due = Due::default();
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(event) => self.note(event, &mut due),
            Err(RecvTimeoutError::Timeout) => {
                due = Due { refresh: true, trust: Trust::NobodyElseWrote, ..Due::default() };
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
        _ = forget.done.send(self.programmer.forget_counts(&forget.pairs));
    }

    fn note(&mut self, event: Event, due: &mut Due) {
        self.surroundings.status.sync_queued();
        match event {
            Event::Facts => due.refresh = true,
            Event::Settings => due.settings = true,
            Event::Addresses(addresses) => self.addresses = addresses,
            Event::Stop => due.end = Some(Ending::Stopped),
            // One who has given up waiting does not take our place.
            Event::Replaced(replacement) if replacement.stopped.send(()).is_ok() => {
                due.end = Some(Ending::Replaced(replacement));
            }
            Event::Replaced(_) => tracing::warn!("another process wanted our place, and has given up waiting"),
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
