//! The thread that ends connections. A sync leaves a note here and goes on; while no Service wants connections to end, the thread
//! sleeps.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use portolan_kernel::IS_LINUX;
use portolan_kernel::conntrack::{TcpFlow, TcpState};
use portolan_kernel::sysctl;
use portolan_model::{Family, Protocol};
use portolan_plan::{Plan, PortKey, ServicePlan};

use super::load::Load;
use super::rebalance::{Candidate, IdleClock, MOST_PER_ROUND, PortConnections, ROUND, Rebalancer, choose, quotas};
use super::removed::{Due, Removed};
use super::reset::{Persistence, Resetter};
use crate::report::SyncReport;
use crate::{Error, Listeners};

/// At most this many connections end at once, and a thousand in a second.
const BATCH: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// What one walk keeps of the connections of removed endpoints. Another walk finds the rest.
const MOST_FOUND: usize = 10_000;
/// Connections of the relay that are reset at once. The rest follows a second later.
const MOST_CARRIED: usize = 1_000;
const RETRY: Duration = Duration::from_secs(5);
/// Connections of rebalanced Services are looked at again immediately before they end: few at a time, so that this is true.
const RECHECKED: usize = 10;

/// Why connections end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    EndpointRemoved,
    Rebalanced,
}

impl Why {
    pub fn name(self) -> &'static str {
        match self {
            Self::EndpointRemoved => "endpoint_removed",
            Self::Rebalanced => "rebalanced",
        }
    }
}

/// Notes how many connections were ended, and why.
pub type NoteResets = Box<dyn Fn(Why, usize) + Send>;

pub struct ConnectionWorker {
    shared: Arc<Shared>,
    start: Instant,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    notes: Mutex<Notes>,
    changed: Condvar,
}

#[derive(Default)]
struct Notes {
    plan: Plan,
    /// In a mode whose daemon carries connections.
    listeners: Option<Arc<Listeners>>,
    /// Of earlier modes, while they carry connections.
    retired: Vec<Arc<Listeners>>,
    removed: Removed,
    rebalancer: Rebalancer,
    is_ended: bool,
}

impl ConnectionWorker {
    /// For the network namespace of the calling thread.
    pub fn start(note: NoteResets) -> Result<Self, Error> {
        let (shared, start) = (Arc::new(Shared::default()), Instant::now());
        let worker = Worker { start, note, ..Worker::new(shared.clone()) };
        let thread = thread::Builder::new().name("resets".into()).spawn(|| worker.work());
        let thread = thread.map_err(|error| Error::Program {
            attempted: "starting the thread that resets connections".into(),
            reason: error.to_string(),
        })?;
        Ok(Self { shared, start, thread: Some(thread) })
    }

    /// The plan is in force.
    pub fn follow(
        &self,
        synced: &SyncReport,
        plan: &Plan,
        listeners: Option<Arc<Listeners>>,
        retired: &[Arc<Listeners>],
    ) {
        // Elsewhere no connection can be reset.
        if !IS_LINUX {
            return;
        }
        let (mut notes, now) = (self.shared.lock(), self.start.elapsed());
        (notes.plan, notes.listeners, notes.retired) = (plan.clone(), listeners, retired.to_vec());
        let has_removed = notes.removed.follow(&synced.changes, now);
        notes.rebalancer.follow(&synced.changes, now);
        if has_removed || !notes.rebalancer.is_idle() {
            self.shared.changed.notify_one();
        }
    }
}

/// Waits for the thread, which removes its table.
impl Drop for ConnectionWorker {
    fn drop(&mut self) {
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_one();
        _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no thread panics while it holds the notes")
    }
}

struct Worker {
    shared: Arc<Shared>,
    start: Instant,
    note: NoteResets,
    /// `None` until it is needed for the first time.
    resetter: Option<Resetter>,
    /// Connections of removed endpoints.
    queue: VecDeque<TcpFlow>,
    next_batch: Duration,
    next_round: Duration,
    /// After a failure.
    not_before: Duration,
    /// That rebalancing is impossible.
    has_warned: bool,
}

impl Worker {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            start: Instant::now(),
            note: Box::new(|_, _| {}),
            resetter: None,
            queue: VecDeque::new(),
            next_batch: Duration::ZERO,
            next_round: Duration::ZERO,
            not_before: Duration::ZERO,
            has_warned: false,
        }
    }

    fn work(mut self) {
        while self.wait() {
            if let Err(error) = self.turn() {
                tracing::error!("resetting connections: {error}; retrying in {RETRY:?}");
                self.not_before = self.start.elapsed() + RETRY;
            }
        }
        if let Some(Err(error)) = self.resetter.as_mut().map(Resetter::remove_table) {
            tracing::error!("resetting connections: {error}");
        }
    }

    /// Waits until something is due. False at the end.
    fn wait(&self) -> bool {
        let mut notes = self.shared.lock();
        while !notes.is_ended {
            let now = self.start.elapsed();
            let left = self.next(&notes).map(|next| next.max(self.not_before).saturating_sub(now));
            notes = match left {
                Some(Duration::ZERO) => return true,
                Some(left) => self.shared.changed.wait_timeout(notes, left).expect("as above").0,
                None => self.shared.changed.wait(notes).expect("as above"),
            };
        }
        false
    }

    fn next(&self, notes: &Notes) -> Option<Duration> {
        let batch = if self.queue.is_empty() { notes.removed.next() } else { Some(self.next_batch) };
        let round = (!notes.rebalancer.is_idle()).then_some(self.next_round);
        let advance = self.resetter.as_ref().and_then(Resetter::next);
        [batch, round, advance].into_iter().flatten().min()
    }

    fn turn(&mut self) -> Result<(), Error> {
        let now = self.start.elapsed();
        let mut resetter = match self.resetter.take() {
            Some(resetter) => resetter,
            None => Resetter::open()?,
        };
        let outcome = self.turn_with(&mut resetter, now);
        self.resetter = Some(resetter);
        outcome
    }

    fn turn_with(&mut self, resetter: &mut Resetter, now: Duration) -> Result<(), Error> {
        resetter.advance(now)?;
        if self.queue.is_empty() {
            self.find_removed(resetter, now)?;
        }
        if !self.queue.is_empty() && self.next_batch <= now {
            let batch: Vec<TcpFlow> = self.queue.drain(..self.queue.len().min(BATCH)).collect();
            (self.note)(Why::EndpointRemoved, resetter.end(&batch, Persistence::Ends, now)?);
            self.next_batch = now + PAUSE;
        }
        if self.next_round <= now {
            self.next_round = now + ROUND;
            self.rebalance(resetter, now)?;
        }
        Ok(())
    }

    /// Finds the connections of the endpoints that are due, in one walk of each family. Those of the relay are reset at once.
    fn find_removed(&mut self, resetter: &mut Resetter, now: Duration) -> Result<(), Error> {
        let (due, plan, listeners) = {
            let mut notes = self.shared.lock();
            let listeners: Vec<_> = notes.listeners.iter().chain(&notes.retired).cloned().collect();
            (notes.removed.due(now), notes.plan.clone(), listeners)
        };
        if due.is_empty() {
            return Ok(());
        }
        let carried = due.reset_carried(&listeners, MOST_CARRIED);
        let found = connections_of(resetter, &due, &plan);
        let is_all =
            matches!((&found, &carried), (Ok(flows), Ok(count)) if flows.len() < MOST_FOUND && *count < MOST_CARRIED);
        if !is_all {
            let mut notes = self.shared.lock();
            let Notes { removed, plan, .. } = &mut *notes;
            removed.repeat(due, plan, now + ROUND);
        }
        let (flows, carried) = (found?, carried?);
        if flows.len() + carried > 0 {
            tracing::info!("resetting {} connections of endpoints that are gone", flows.len() + carried);
        }
        (self.note)(Why::EndpointRemoved, carried);
        self.queue.extend(flows);
        Ok(())
    }

    fn rebalance(&mut self, resetter: &mut Resetter, now: Duration) -> Result<(), Error> {
        let (plan, listeners) = {
            let notes = self.shared.lock();
            (notes.plan.clone(), notes.listeners.clone())
        };
        let ports = self.shared.lock().rebalancer.round(&plan, now);
        if ports.is_empty() {
            return Ok(());
        }
        if listeners.is_none() && !resetter.provokes() {
            if !std::mem::replace(&mut self.has_warned, true) {
                tracing::warn!("Services are not rebalanced: idle connections cannot be reset without CAP_NET_RAW");
            }
            return Ok(());
        }
        let clock = idle_clock()?;
        let mut found = match &listeners {
            Some(_) => carried_connections(resetter, &ports, &plan)?,
            None => rebalanced_connections(resetter, &ports, clock, &plan)?,
        };
        let mut budget = MOST_PER_ROUND;
        for (service, idle) in ports {
            let found = found.remove(&service.key).unwrap_or_default();
            let Some(quotas) = quotas(service, &found.open, budget) else {
                self.shared.lock().rebalancer.finish(&service.key);
                continue;
            };
            budget -= quotas.values().sum::<usize>();
            let mut count = 0;
            match &listeners {
                Some(listeners) => {
                    for (endpoint, quota) in &quotas {
                        count += listeners.reset(&service.key, *endpoint, idle, *quota)?;
                    }
                }
                None => count = end_idle(resetter, &choose(found, &quotas), clock, idle, now)?,
            }
            tracing::debug!("rebalancing {}: {count} idle connections are reset", service.key);
            (self.note)(Why::Rebalanced, count);
        }
        Ok(())
    }
}

fn connections_of(resetter: &mut Resetter, due: &Due, plan: &Plan) -> Result<Vec<TcpFlow>, Error> {
    let mut all = Vec::new();
    for family in Family::BOTH {
        let room = MOST_FOUND - all.len();
        let found: Vec<TcpFlow> = resetter.conntrack().tcp_flows(family, |flows: &mut Vec<TcpFlow>, flow| {
            if flows.len() < room && due.concerns(&flow.flow, plan) {
                flows.push(*flow);
            }
        })?;
        all.extend(found);
    }
    Ok(all)
}

type Found = HashMap<PortKey, PortConnections>;

/// The relay knows which of its connections are idle.
fn carried_connections(
    resetter: &mut Resetter,
    ports: &[(&ServicePlan, Duration)],
    plan: &Plan,
) -> Result<Found, Error> {
    let load = Load::read(resetter.conntrack(), plan)?;
    let open = |service: &ServicePlan| {
        load.of(service).endpoints.into_iter().map(|(endpoint, count)| (endpoint, count as usize)).collect()
    };
    let found = |service: &ServicePlan| PortConnections { open: open(service), ..PortConnections::default() };
    Ok(ports.iter().map(|(service, _)| (service.key.clone(), found(service))).collect())
}

fn rebalanced_connections(
    resetter: &mut Resetter,
    ports: &[(&ServicePlan, Duration)],
    clock: IdleClock,
    plan: &Plan,
) -> Result<Found, Error> {
    let wanted: HashMap<&PortKey, Duration> = ports.iter().map(|(service, idle)| (&service.key, *idle)).collect();
    let mut found = Found::new();
    for family in Family::BOTH {
        let walked: Found = resetter.conntrack().tcp_flows(family, |found: &mut Found, flow| {
            let Some((port, idle)) = rebalanced_port(flow, &wanted, plan) else { return };
            found.entry(port).or_default().note(flow, clock.idle(flow).filter(|time| *time >= idle));
        })?;
        found.extend(walked);
    }
    Ok(found)
}

/// The Service port of an open connection, if it is one of the wanted.
fn rebalanced_port(flow: &TcpFlow, wanted: &HashMap<&PortKey, Duration>, plan: &Plan) -> Option<(PortKey, Duration)> {
    let frontend = flow.flow.original_destination;
    let is_open = flow.is_replied && flow.state == TcpState::Established && flow.flow.reply_source != frontend;
    let claim = is_open.then(|| plan.holder(frontend.ip(), frontend.port(), Protocol::Tcp))??;
    let idle = *wanted.get(&claim.holder)?;
    Some((claim.holder, idle))
}

/// Ends those that are idle even now.
fn end_idle(
    resetter: &mut Resetter,
    candidates: &[Candidate],
    clock: IdleClock,
    idle: Duration,
    now: Duration,
) -> Result<usize, Error> {
    let mut count = 0;
    for candidates in candidates.chunks(RECHECKED) {
        let mut still = Vec::with_capacity(candidates.len());
        for Candidate { flow, .. } in candidates {
            let (source, destination) = (flow.flow.original_source, flow.flow.original_destination);
            let found = resetter.conntrack().find_tcp(source, destination)?;
            let is_idle = |found: &TcpFlow| found.id == flow.id && clock.idle(found).is_some_and(|time| time >= idle);
            still.extend(found.filter(is_idle));
        }
        count += resetter.end(&still, Persistence::Stays, now)?;
    }
    Ok(count)
}

/// The timeouts of connection tracking, which may change at any time.
pub(super) fn idle_clock() -> Result<IdleClock, Error> {
    let seconds = |name: &str| -> Result<Duration, Error> {
        let text = sysctl::read(&format!("net/netfilter/nf_conntrack_tcp_timeout_{name}"))?;
        Ok(Duration::from_secs(text.and_then(|text| text.parse().ok()).unwrap_or(0)))
    };
    Ok(IdleClock {
        established: seconds("established")?,
        unacknowledged: seconds("unacknowledged")?.max(seconds("max_retrans")?),
    })
}
