//! The run loop: facts → plan → kernel, for as long as the process lives.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::{Reconciler, SyncReport, forget_all_stale_flows, forget_flows};
use portolan_kernel::conntrack::Conntrack;
use portolan_kernel::signal::block_termination_signals;
use portolan_plan::{Plan, PlanConfig, plan};
use portolan_source::{Manifests, Report};

use crate::commands::SUCCESS;
use crate::config::{self, Keep};
use crate::control::{self, Published};
use crate::events::{self, Event};
use crate::flags::ProxyFlags;
use crate::{host, log};

/// The first wait before a failed sync is tried again; each further one doubles it, up to the sync period.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// The least time between a repair of what somebody else did and the next write.
const REPAIR_PAUSE: Duration = Duration::from_millis(200);
/// Events that may wait; a source that has more to tell waits itself.
const EVENTS: usize = 64;

pub fn run(flags: &ProxyFlags) -> anyhow::Result<u8> {
    let start = Instant::now();
    log::start(flags.verbosity);
    config::require_manifests(&flags.facts.manifests)?;
    let signals = block_termination_signals().context("preparing for SIGTERM and SIGINT")?;
    let mut daemon = Daemon::open(flags, start)?;
    let (sender, receiver) = sync_channel(EVENTS);
    events::watch_signals(signals, sender.clone())?;
    events::watch_addresses(sender.clone())?;
    events::watch_manifests(&flags.facts.manifests, sender.clone())?;
    control::serve(&flags.control.control_socket, daemon.published.clone())?;
    tracing::info!("Using {} Proxier.", flags.traffic.proxy_mode.name());
    daemon.work(&receiver, &sender);
    Ok(SUCCESS)
}

struct Daemon {
    manifests: Manifests,
    addresses: Vec<IpAddr>,
    config: PlanConfig,
    plan: Plan,
    reconciler: Reconciler<Nftables, NftablesKernel>,
    conntrack: Conntrack,
    /// The plan whose stale flows have been forgotten; `None` until all flows have been looked at once.
    flows_of: Option<Plan>,
    published: Arc<Mutex<Published>>,
    min_sync_period: Duration,
    /// The least time until the next write.
    pause: Duration,
    sync_period: Duration,
    start: Instant,
    retry: Duration,
    is_ready: bool,
    watches_kernel: bool,
}

/// What has to be done next.
#[derive(Default)]
struct Due {
    reload: bool,
    trust: Trust,
    stop: bool,
}

/// What a sync may believe about the kernel without reading all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    /// It holds what we wrote; somebody else's changes would have been notified.
    #[default]
    OurMemory,
    /// It holds what we wrote if its count of commits says that all of them were ours.
    NobodyElseWrote,
    Nothing,
}

impl Daemon {
    fn open(flags: &ProxyFlags, start: Instant) -> anyhow::Result<Self> {
        let options = config::source_options(&flags.facts, Keep::Allocations)?;
        let config = config::plan_config(&flags.traffic)?;
        let published = Published::new(options.clone(), config.clone(), flags.traffic.masquerade_bit);
        let kernel = NftablesKernel::open().context("opening the kernel's tables")?;
        Ok(Self {
            manifests: Manifests::new(options),
            addresses: host::addresses(),
            config,
            plan: Plan::default(),
            reconciler: Reconciler::new(Nftables::new(flags.traffic.masquerade_bit), kernel),
            conntrack: Conntrack::open().context("opening the kernel's connection table")?,
            flows_of: None,
            published: Arc::new(Mutex::new(published)),
            min_sync_period: flags.min_sync_period,
            pause: flags.min_sync_period,
            sync_period: flags.sync_period,
            start,
            retry: FIRST_RETRY,
            is_ready: false,
            watches_kernel: false,
        })
    }

    fn work(&mut self, events: &Receiver<Event>, sender: &SyncSender<Event>) {
        let mut due = Due { reload: true, ..Due::default() };
        while !due.stop {
            let next = self.turn(&due);
            if self.is_ready && !self.watches_kernel {
                self.watch_kernel(sender);
            }
            due = self.wait(events, Instant::now() + next);
        }
        tracing::info!("stopping; the rules stay in place (portolan cleanup removes them)");
    }

    /// Begins only after the first sync: while anybody listens, the kernel describes every element that is written,
    /// which would double the time of the largest write of all. What others did meanwhile shows in the check.
    fn watch_kernel(&mut self, sender: &SyncSender<Event>) {
        let watched = events::watch_kernel(self.reconciler.kernel().port_id(), sender.clone());
        self.watches_kernel = watched.is_ok();
        if let Err(error) = watched.and_then(|()| self.sync(Trust::NobodyElseWrote)) {
            tracing::error!("{error:#}; changes by others are noticed every {:?} only", self.sync_period);
        }
    }

    /// Does what is due, and tells when to look again at the latest.
    fn turn(&mut self, due: &Due) -> Duration {
        if due.reload {
            self.reload();
        }
        let mut snapshot = self.manifests.snapshot();
        host::add_addresses(&mut snapshot, &self.addresses);
        self.plan = plan(&snapshot, &self.plan, &self.config);
        match self.sync(due.trust) {
            Ok(synced) => {
                self.retry = FIRST_RETRY;
                // Two who undo each other's changes must not keep the machine busy.
                let is_repair = due.trust == Trust::Nothing;
                self.pause = if is_repair { self.min_sync_period.max(REPAIR_PAUSE) } else { self.min_sync_period };
                self.tell(&synced);
                self.sync_period
            }
            Err(error) => {
                let wait = self.retry.min(self.sync_period);
                tracing::error!("programming the kernel: {error:#}; trying again in {wait:?}");
                self.retry = (self.retry * 2).min(self.sync_period);
                wait
            }
        }
    }

    fn reload(&mut self) {
        report(&self.manifests.reload());
        if !self.is_ready {
            // Reading all files for the first time leaves holes that the first sync had better not stand beside.
            portolan_kernel::release_unused_memory();
        }
    }

    fn sync(&mut self, trust: Trust) -> anyhow::Result<SyncReport> {
        let start = self.start;
        let clock = move || start.elapsed();
        let report = match trust {
            Trust::OurMemory => self.reconciler.sync(&self.plan, &clock)?,
            Trust::NobodyElseWrote => self.reconciler.sync_and_check(&self.plan, &clock)?,
            Trust::Nothing => self.reconciler.sync_everything(&self.plan, &clock)?,
        };
        if let Err(error) = self.forget_flows() {
            tracing::error!("forgetting stale UDP flows: {error:#}; trying again with the next sync");
        }
        self.published.lock().expect("nobody panics while publishing").plan = Some(self.plan.clone());
        Ok(report)
    }

    fn forget_flows(&mut self) -> anyhow::Result<()> {
        match &self.flows_of {
            Some(before) => forget_flows(&mut self.conntrack, before, &self.plan)?,
            None => forget_all_stale_flows(&mut self.conntrack, &self.plan)?,
        };
        self.flows_of = Some(self.plan.clone());
        Ok(())
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
            Err(RecvTimeoutError::Timeout) => due = Due { reload: true, trust: Trust::NobodyElseWrote, stop: false },
            Err(RecvTimeoutError::Disconnected) => due.stop = true,
        }
        while !due.stop {
            match events.recv_timeout(earliest.saturating_duration_since(Instant::now())) {
                Ok(event) => self.note(event, &mut due),
                Err(_) => break,
            }
        }
        due
    }

    fn note(&mut self, event: Event, due: &mut Due) {
        match event {
            Event::Manifests => due.reload = true,
            Event::Addresses(addresses) => self.addresses = addresses,
            Event::Stop => due.stop = true,
            Event::Foreign(what) => {
                if due.trust != Trust::Nothing {
                    tracing::warn!("{what}; comparing with the plan");
                }
                due.trust = Trust::Nothing;
            }
        }
    }
}

fn report(report: &Report) {
    for problem in &report.new_problems {
        tracing::error!("{problem}");
    }
    for ignored in &report.ignored {
        tracing::info!("{ignored}");
    }
}
