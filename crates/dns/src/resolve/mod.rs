//! From a DNS message to its response: cluster names at once, other names after an upstream has answered.

mod attempt;
mod autopath;
mod client;
mod config;
mod in_flight;
mod log;

use std::sync::Arc;
use std::time::Instant;

use attempt::{Attempt, Step, key};
use in_flight::{InFlight, Turn, wait};
use log::QueryLog;

use crate::cache::{Cache, Hit, Key};
use crate::forward::{ForwardError, Forwarder};
use crate::limit::RateLimit;
use crate::metrics::{Counts, Metrics, Request, ZoneKind, count};
use crate::published::{Published, Reader};
use crate::random::Turns;
use crate::wire::{Builder, Name, Query, Rcode, Reply, Unanswerable, flag, kind};
use crate::zone::reverse_zones;

pub use client::Client;
pub use config::{Autopath, Config};

/// The largest UDP response: what passes every network without fragmentation.
const UDP_LIMIT: usize = 1232;
const TCP_LIMIT: usize = u16::MAX as usize;
/// The upstream queries that one client query may cause.
const MAX_UPSTREAM_QUERIES: usize = 12;

pub struct Resolver {
    config: Config,
    pub published: Arc<Published>,
    pub(crate) cache: Cache,
    pub(crate) forwarder: Option<Forwarder>,
    limit: Option<RateLimit>,
    pub(crate) metrics: Metrics,
    waiting: Arc<Counts>,
    in_flight: InFlight,
}

/// The result of handling a message.
pub enum Handled {
    /// The response is written.
    Answered,
    /// The message gets no response.
    Ignored,
    /// An upstream must answer first: [`Resolver::finish`].
    Deferred,
}

/// The state of one thread.
pub struct ThreadState {
    reader: Reader,
    turns: Turns,
    counts: Arc<Counts>,
}

impl Resolver {
    pub fn new(config: Config) -> Self {
        let forwarder = (!config.forward.routes.is_empty()).then(|| Forwarder::new(config.forward.clone()));
        let metrics = Metrics::default();
        Self {
            cache: Cache::new(config.cache.clone()),
            limit: config.rate_limit.map(|limit| RateLimit::new(limit, Instant::now())),
            published: Arc::default(),
            waiting: metrics.counts(),
            in_flight: InFlight::default(),
            metrics,
            forwarder,
            config,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn thread_state(&self) -> ThreadState {
        ThreadState { reader: Reader::new(self.published.clone()), turns: Turns::new(), counts: self.metrics.counts() }
    }

    /// The state of an asynchronous task. All tasks share one set of counters.
    pub fn task_state(&self) -> ThreadState {
        ThreadState { reader: Reader::new(self.published.clone()), turns: Turns::new(), counts: self.waiting.clone() }
    }

    /// Answers a message if no upstream is needed.
    pub fn handle(&self, state: &mut ThreadState, message: &[u8], client: Client, out: &mut Vec<u8>) -> Handled {
        let start = Instant::now();
        let query = match Query::parse(message) {
            Ok(query) => query,
            Err(Unanswerable::Ignored) => return Handled::Ignored,
            Err(Unanswerable::Error { id, flags, rcode }) => {
                Builder::error(id, flags, rcode, out);
                return Handled::Answered;
            }
        };
        if self.is_over_limit(&query, client, start, state, out) {
            return if out.is_empty() { Handled::Ignored } else { Handled::Answered };
        }
        match self.attempt(state, &query, client, &[], start, out) {
            Step::Forward(_) => Handled::Deferred,
            Step::Done(rcode) => {
                self.note(state, &query, client, rcode, out.len(), start);
                Handled::Answered
            }
        }
    }

    /// Answers a message that needs an upstream.
    pub async fn finish(&self, state: &mut ThreadState, message: &[u8], client: Client) -> Vec<u8> {
        let start = Instant::now();
        let (mut known, mut out) = (Vec::new(), Vec::new());
        let Ok(query) = Query::parse(message) else { return out };
        for _ in 0..MAX_UPSTREAM_QUERIES {
            match self.attempt(state, &query, client, &known, start, &mut out) {
                Step::Done(rcode) => {
                    self.note(state, &query, client, rcode, out.len(), start);
                    return out;
                }
                Step::Forward(name) => known.push((*name, self.forward(&key(&query, *name)).await)),
            }
        }
        refuse(&query, Rcode::SERVER_FAILURE, &mut out);
        self.note(state, &query, client, Rcode::SERVER_FAILURE, out.len(), start);
        out
    }

    fn attempt(
        &self,
        state: &mut ThreadState,
        query: &Query<'_>,
        client: Client,
        known: &[(Name, Hit)],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Step {
        let is_transfer = matches!(query.kind, kind::AXFR | kind::IXFR);
        if is_transfer || !query.is_internet() {
            return Step::Done(refuse(query, Rcode::REFUSED, out));
        }
        let limit = if client.is_tcp { TCP_LIMIT } else { query.limit(UDP_LIMIT) };
        let turn = state.turns.next();
        let zone = state.reader.zone().map(|zone| &**zone);
        let Self { config, forwarder, cache, metrics, .. } = self;
        let forwarder = forwarder.as_ref();
        Attempt { config, forwarder, cache, metrics, zone, query, client, known, now, turn, limit }.answer(out)
    }

    async fn forward(&self, key: &Key) -> Hit {
        match self.in_flight.join(*key) {
            Turn::Wait(answer) => wait(answer).await.unwrap_or_else(|| failure(Rcode::SERVER_FAILURE)),
            Turn::Lead(leader) => {
                let hit = self.query_upstream(key).await;
                leader.publish(hit.clone());
                hit
            }
        }
    }

    /// The upstream answer, or a stale one if no upstream answers, or SERVFAIL.
    async fn query_upstream(&self, key: &Key) -> Hit {
        let Some(forwarder) = &self.forwarder else { return failure(Rcode::REFUSED) };
        let now = Instant::now();
        if forwarder.is_down(&key.name)
            && let Some(hit) = self.stale(key, now)
        {
            return hit;
        }
        match forwarder.query(key).await {
            Ok(reply) => {
                let reply = Arc::new(reply);
                self.cache.put(*key, &reply, Instant::now());
                Hit { reply, age: 0 }
            }
            Err(error) => self.stale(key, now).unwrap_or_else(|| {
                tracing::debug!("{} {}: {error}", key.name, kind::name(key.kind));
                failure(if error == ForwardError::Busy { Rcode::REFUSED } else { Rcode::SERVER_FAILURE })
            }),
        }
    }

    fn stale(&self, key: &Key, now: Instant) -> Option<Hit> {
        let hit = self.cache.stale(key, now)?;
        count(&self.metrics.served_stale);
        Some(hit)
    }

    /// Every second response over the limit is truncated, which asks for TCP: a client with a spoofed address cannot
    /// do that.
    fn is_over_limit(
        &self,
        query: &Query<'_>,
        client: Client,
        now: Instant,
        state: &mut ThreadState,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(limit) = self.limit.as_ref().filter(|_| !client.is_tcp) else { return false };
        if limit.allows(client.address.ip(), now) {
            return false;
        }
        count(&self.metrics.limited);
        out.clear();
        if state.turns.next().is_multiple_of(2) {
            let mut builder = Builder::new(query, query.limit(UDP_LIMIT), out);
            builder.set(flag::TRUNCATED);
            builder.finish();
        }
        true
    }

    fn note(&self, state: &ThreadState, query: &Query<'_>, client: Client, rcode: Rcode, size: usize, start: Instant) {
        let time = start.elapsed();
        let request = Request {
            zone: self.zone_kind(&query.name),
            is_tcp: client.is_tcp,
            is_ipv6: client.address.is_ipv6(),
            kind: query.kind,
            wants_dnssec: query.wants_dnssec(),
            size: query.message.len(),
        };
        state.counts.answered(&request, rcode, size, time);
        if self.config.log_queries {
            QueryLog { query, client, rcode, size, time }.write();
        }
    }

    pub(crate) fn note_panic(&self, message: &[u8]) {
        count(&self.metrics.panics);
        tracing::error!("a query caused a panic, which is a bug: {message:02x?}");
    }

    fn zone_kind(&self, name: &Name) -> ZoneKind {
        if self.config.zone.zones.iter().any(|zone| name.is_within(zone)) {
            ZoneKind::Cluster
        } else if reverse_zones().iter().any(|zone| name.is_within(zone)) {
            ZoneKind::Reverse
        } else {
            ZoneKind::Other
        }
    }
}

fn failure(rcode: Rcode) -> Hit {
    Hit { reply: Arc::new(Reply { rcode: rcode.0, ..Reply::default() }), age: 0 }
}

fn refuse(query: &Query<'_>, rcode: Rcode, out: &mut Vec<u8>) -> Rcode {
    let mut builder = Builder::new(query, UDP_LIMIT, out);
    builder.rcode(rcode);
    builder.finish();
    rcode
}
