//! The worker thread: it waits for sockets, timers and commands, and does a bounded amount of work for each.

mod accepting;
mod admission;
mod affinity;
mod choice;
mod commands;
mod connection;
mod datagrams;
mod dialing;
mod flow;
mod health;
mod listing;
mod load;
mod moving;
mod pausing;
mod pipes;
mod poller;
mod redirected;
mod slots;
mod timers;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use self::accepting::{Listener, Warnings};
use self::admission::{Admission, Seat};
use self::affinity::AffinityBudget;
use self::commands::Request;
pub(crate) use self::commands::{Command, Commands};
use self::connection::{Connection, Side};
use self::datagrams::Associations;
use self::dialing::{Dial, PendingClient};
use self::health::EndpointHealth;
pub(crate) use self::listing::Listed;
use self::load::Load;
use self::pausing::{Doorway, Paused};
use self::pipes::Pipes;
use self::poller::{Events, Poller, Source};
use self::redirected::Redirections;
use self::slots::{Key, Slots};
use self::timers::{Alarm, Timers};
use crate::error::Error;
use crate::limits::Limits;
use crate::system::shares::Shares;

/// How often expired entries and idle connections are removed; more often only if a timeout is shorter than that.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
const SHORTEST_SWEEP_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct Worker {
    limits: Limits,
    /// The descriptor limit of the process.
    descriptors: usize,
    admission: Admission,
    poller: Poller,
    requests: Receiver<Request>,
    has_ended: bool,
    /// The time at the start of this turn.
    now: Instant,
    timers: Timers,
    /// The retry timer is set.
    is_retry_set: bool,
    listeners: Slots<Listener>,
    names: HashMap<String, Key>,
    affinity_budget: AffinityBudget,
    paused: Paused,
    pending_clients: Slots<PendingClient>,
    /// Clients that are waiting for a free descriptor.
    without_descriptor: VecDeque<Key>,
    dials: Slots<Dial>,
    health: EndpointHealth,
    load: Load,
    connections: Slots<Connection>,
    /// Connections that are ready to run.
    queue: VecDeque<Key>,
    /// Connections that are waiting for a pipe.
    waiting_for_pipe: VecDeque<Key>,
    pipes: Pipes,
    associations: Associations,
    /// `None` if every client is served, redirected or not.
    redirections: Option<Redirections>,
    active: Arc<AtomicUsize>,
    warnings: Warnings,
}

pub(crate) fn start(
    limits: Limits,
    descriptors: usize,
    active: Arc<AtomicUsize>,
) -> Result<(Commands, JoinHandle<()>), Error> {
    let poller = Poller::new().map_err(|source| Error::io("creating an epoll instance", source))?;
    let (sender, requests) = channel();
    let commands = Commands::new(sender, poller.waker());
    let redirections = limits.only_redirected.then(Redirections::open).transpose()?;
    let worker = Worker { redirections, ..Worker::new(limits, descriptors, poller, requests, active) };
    let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(move || worker.run());
    thread.map(|thread| (commands, thread)).map_err(|source| Error::io("starting the relay's thread", source))
}

impl Worker {
    fn new(
        limits: Limits,
        descriptors: usize,
        poller: Poller,
        requests: Receiver<Request>,
        active: Arc<AtomicUsize>,
    ) -> Self {
        let shares = Shares::of(descriptors, limits.connections);
        let now = Instant::now();
        let mut timers = Timers::new();
        timers.set(now, Alarm::Sweep);
        Worker {
            limits,
            descriptors,
            admission: Admission::new(shares.connections),
            poller,
            requests,
            has_ended: false,
            now,
            timers,
            is_retry_set: false,
            listeners: Slots::new(),
            names: HashMap::new(),
            affinity_budget: AffinityBudget::default(),
            paused: Paused::default(),
            pending_clients: Slots::new(),
            without_descriptor: VecDeque::new(),
            dials: Slots::new(),
            health: EndpointHealth::default(),
            load: Load::default(),
            connections: Slots::new(),
            queue: VecDeque::new(),
            waiting_for_pipe: VecDeque::new(),
            pipes: Pipes::new(shares.pipes),
            associations: Associations::new(),
            redirections: None,
            active,
            warnings: Warnings::default(),
        }
    }

    /// Divides the descriptors that listeners do not use.
    fn divide_descriptors(&mut self) {
        let left = self.descriptors.saturating_sub(self.names.len());
        let shares = Shares::of(left, self.limits.connections);
        self.admission.set_limit(shares.connections);
        self.pipes.set_limit(shares.pipes);
    }

    fn run(mut self) {
        let mut events = Events::new();
        while !self.has_ended {
            self.poller.wait(self.timeout(), &mut events);
            self.now = Instant::now();
            // Commands first, so that they apply to everything else in this turn.
            self.run_commands();
            for (source, flags) in events.iter() {
                self.handle(source, flags);
            }
            self.run_alarms();
            self.run_queued();
            self.resume_paused();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if self.queue.is_empty() { self.timers.next_in(Instant::now()) } else { Some(Duration::ZERO) }
    }

    fn handle(&mut self, source: Source, flags: EventFlags) {
        match source {
            Source::Listener(key) => self.receive_clients(key),
            Source::Dial(key) => self.finish_dial(key),
            Source::Client(key) => self.on_event(key, Side::Client, flags),
            Source::Server(key) => self.on_event(key, Side::Server, flags),
            Source::Association(key) => self.relay_to_client(key),
            Source::Command => {}
        }
    }

    fn run_alarms(&mut self) {
        while let Some(alarm) = self.timers.take_due(self.now) {
            match alarm {
                Alarm::Stalled(dial) => self.dial_is_slow(dial),
                Alarm::TimedOut(dial) => self.dial_timed_out(dial),
                Alarm::Idle(association) => self.end_if_idle(association),
                Alarm::Closed(listener) => self.finish_closing(listener),
                Alarm::Retry => self.retry(),
                Alarm::Sweep => self.sweep(),
            }
        }
    }

    /// There may be descriptors again: connections that are established come first, then clients that are accepted,
    /// and at the end of the turn those in the accept queues.
    fn retry(&mut self) {
        self.is_retry_set = false;
        self.pipes.shortage_may_be_over();
        self.run_queued();
        self.dial_for_waiting();
        self.admission.has_room = true;
    }

    fn sweep(&mut self) {
        self.timers.set(self.now + sweep_interval(&self.limits), Alarm::Sweep);
        self.end_idle_connections();
        self.health.expire(self.now);
        self.load.expire();
        self.expire_affinity();
    }

    fn connection_started(&mut self, seat: &Seat) {
        seat.tally.connections.add(1);
        seat.tally.active.add(1);
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection has ended, so that another can be accepted at the end of this turn.
    fn connection_ended(&mut self, seat: &Seat) {
        seat.tally.active.take_one();
        // Release: a reader of this counter sees all other counters of the connection.
        self.active.fetch_sub(1, Ordering::Release);
        self.admission.give_back(seat);
    }
}

fn sweep_interval(limits: &Limits) -> Duration {
    let timeouts = [limits.tcp_idle, limits.tcp_half_closed].into_iter().filter(|timeout| !timeout.is_zero());
    let shortest = timeouts.min().unwrap_or(SWEEP_INTERVAL);
    (shortest / 4).clamp(SHORTEST_SWEEP_INTERVAL, SWEEP_INTERVAL)
}
