//! What this node observes about endpoints, for Services that are balanced by it: kept up to date beside the facts, and fed by
//! walks of the connection table. Without such a Service there is no thread and no walk.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portolan_balance::{Balancer, Seen, Sighting, Stage, Verdict, Watch};
use portolan_kernel::conntrack::{Conntrack, Refusals, Refused, TcpFlow, TcpState};
use portolan_model::{Balancing, Family, Snapshot};

use super::events::{self, Event};

/// How often the connection table is walked.
const WALK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Balance {
    balancer: Balancer,
    start: Instant,
    watched: Arc<Watched>,
    is_walking: bool,
    events: SyncSender<Event>,
}

impl Balance {
    pub(super) fn new(start: Instant, events: SyncSender<Event>) -> Self {
        Self { balancer: Balancer::default(), start, watched: Arc::default(), is_walking: false, events }
    }

    /// Adds what is observed to the facts.
    pub(super) fn observe(&mut self, snapshot: &mut Snapshot, defaults: &Balancing, counts_load: bool) {
        let now = self.start.elapsed();
        self.balancer.follow(snapshot, defaults, counts_load, now);
        self.balancer.advance(now);
        snapshot.observed = self.balancer.observed().clone();
        self.watch();
    }

    fn watch(&mut self) {
        let watched = self.balancer.watched();
        if watched.is_some() && !self.is_walking {
            match walk_again_and_again(self.watched.clone(), self.events.clone()) {
                Ok(()) => self.is_walking = true,
                Err(error) => tracing::error!("watching connections: {error:#}; no endpoint is quarantined"),
            }
        }
        self.watched.set(watched);
    }

    /// Returns what changed about endpoints, and whether the plan is affected.
    pub(super) fn note(&mut self, sighting: Sighting, is_inside: impl Fn(IpAddr) -> bool) -> (Vec<Verdict>, bool) {
        let before = self.balancer.observed().clone();
        let verdicts = self.balancer.note(sighting, self.start.elapsed(), is_inside);
        self.watched.set(self.balancer.watched());
        self.watched.set_silent(self.balancer.silent());
        (verdicts, !before.ptr_eq(self.balancer.observed()))
    }

    /// When an endpoint is a little warmer.
    pub(super) fn next(&self) -> Option<Instant> {
        self.balancer.next().map(|time| self.start + time)
    }
}

/// The endpoints whose connections are looked at. The thread sleeps while there are none.
#[derive(Default)]
struct Watched {
    watch: Mutex<Option<Watch>>,
    changed: Condvar,
    /// Those that do not answer.
    silent: Mutex<HashSet<SocketAddr>>,
}

impl Watched {
    fn set(&self, watch: Option<Watch>) {
        *self.watch.lock().expect("no thread panics with it") = watch;
        self.changed.notify_all();
    }

    fn set_silent(&self, endpoints: HashSet<SocketAddr>) {
        *self.silent.lock().expect("no thread panics with it") = endpoints;
    }

    fn silent(&self) -> HashSet<SocketAddr> {
        self.silent.lock().expect("no thread panics with it").clone()
    }

    fn wait(&self) -> Watch {
        let guard = self.watch.lock().expect("no thread panics with it");
        let guard = self.changed.wait_while(guard, |watch| watch.is_none());
        guard.expect("no thread panics with it").clone().unwrap_or_default()
    }
}

fn walk_again_and_again(watched: Arc<Watched>, events: SyncSender<Event>) -> anyhow::Result<()> {
    let mut table = Table { conntrack: Conntrack::open()?, refusals: Refusals::open()? };
    let mut has_failed = false;
    events::spawn("connections", move || {
        let watch = watched.wait();
        let looked = table.forget_waiting(&watched.silent()).and_then(|()| table.look_for(&watch));
        // Logged once, and not every second.
        if let Some(error) = looked.as_ref().err().filter(|_| !has_failed) {
            tracing::warn!("{error}; until it works again, silent endpoints are not found and loads are not counted");
        }
        has_failed = looked.is_err();
        let is_sent = looked.map_or(true, |sighting| events.send(Event::Sighting(Box::new(sighting))).is_ok());
        thread::sleep(WALK_EVERY);
        is_sent
    })
}

struct Table {
    conntrack: Conntrack,
    refusals: Refusals,
}

/// In one walk.
const MOST_FORGOTTEN: usize = 1000;

impl Table {
    /// A client that got no answer repeats its SYN, and may use the same port again later. As long as the connection is
    /// tracked, both lead to the endpoint that does not answer. Without its entry the next SYN is translated as a new one.
    fn forget_waiting(&mut self, silent: &HashSet<SocketAddr>) -> Result<(), portolan_kernel::Error> {
        for family in families_of(silent) {
            let is_stuck = |flow: &TcpFlow| !flow.is_replied && silent.contains(&flow.flow.reply_source);
            let is_translated = |flow: &TcpFlow| flow.flow.original_destination != flow.flow.reply_source;
            let stuck: Vec<TcpFlow> = self.conntrack.tcp_flows(family, |stuck: &mut Vec<TcpFlow>, flow| {
                let is_wanted = stuck.len() < MOST_FORGOTTEN && is_stuck(flow) && is_translated(flow);
                stuck.extend(is_wanted.then_some(*flow));
            })?;
            self.forget(&stuck)?;
        }
        Ok(())
    }

    /// Except one that has got its answer meanwhile.
    fn forget(&mut self, stuck: &[TcpFlow]) -> Result<(), portolan_kernel::Error> {
        for TcpFlow { flow, .. } in stuck {
            let now = self.conntrack.find_tcp(flow.original_source, flow.original_destination)?;
            if now.is_some_and(|now| now.flow == *flow && !now.is_replied) {
                self.conntrack.delete_flows(&[*flow])?;
            }
        }
        Ok(())
    }

    fn look_for(&mut self, watch: &Watch) -> Result<Sighting, portolan_kernel::Error> {
        let mut sighting = Sighting::of(watch.clone());
        for family in families_of(watch.endpoints()) {
            let walked = self.conntrack.tcp_flows(family, |walked: &mut Option<Sighting>, flow| {
                if watch.concerns(&flow.flow.reply_source) {
                    walked.get_or_insert_with(|| Sighting::of(watch.clone())).note(seen(flow));
                }
            })?;
            walked.into_iter().for_each(|walked| sighting.add(walked));
        }
        for Refused { flow, is_by_server } in self.refusals.take()? {
            sighting.note_refused(flow.original_source, flow.reply_source, is_by_server);
        }
        Ok(sighting)
    }
}

/// A walk goes through all buckets of the table, however few connections there are: none is made for a family without endpoints.
fn families_of(endpoints: &HashSet<SocketAddr>) -> impl Iterator<Item = Family> {
    let has = |family| endpoints.iter().any(|endpoint| Family::of(endpoint.ip()) == family);
    Family::BOTH.into_iter().filter(move |family| has(*family))
}

fn seen(flow: &TcpFlow) -> Seen {
    let stage = match flow.state {
        _ if !flow.is_replied => Stage::Waiting,
        TcpState::Established => Stage::Established,
        _ if flow.is_assured => Stage::Closing,
        _ => Stage::Answered,
    };
    Seen { client: flow.flow.original_source, endpoint: flow.flow.reply_source, stage }
}
