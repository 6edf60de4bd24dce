//! From a DNS message to its response: cluster names at once, other names after an upstream has answered.

mod attempt;
mod autopath;
mod client;
mod config;
mod deferred;
mod fuzz;
mod in_flight;
mod log;
mod waiting;

use std::sync::Arc;
use std::time::Instant;

use attempt::{Attempt, Step};
use in_flight::InFlight;
use log::QueryLog;
use waiting::{Refusal, Waiting};

use crate::acl::{self, AclAction};
use crate::cache::{Cache, Hit};
use crate::forward::Forwarder;
use crate::limit::RateLimit;
use crate::metrics::{Counts, Metrics, Request, ZoneKind, count};
use crate::published::{Published, Reader};
use crate::random::Turns;
use crate::wire::{Builder, Name, Query, Rcode, Unanswerable, flag, kind};
use crate::zone::reverse_zones;

pub use client::Client;
pub use config::{Autopath, Config};
pub use deferred::Deferred;
pub(crate) use deferred::PanicGuard;
pub(crate) use fuzz::answer_with;

/// The largest UDP response: what passes every network without fragmentation.
const UDP_LIMIT: usize = 1232;
const TCP_LIMIT: usize = u16::MAX as usize;

#[derive(Debug)]
pub struct Resolver {
    config: Config,
    pub published: Arc<Published>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) forwarder: Option<Arc<Forwarder>>,
    limit: Option<Arc<RateLimit>>,
    pub(crate) metrics: Arc<Metrics>,
    task_counts: Arc<Counts>,
    pub(crate) waiting: Arc<Waiting>,
    in_flight: Arc<InFlight>,
}

/// The result of handling a message.
pub enum Handled {
    /// The response is written.
    Answered,
    /// The message gets no response.
    Ignored,
    /// An upstream must answer first: [`Resolver::gather`].
    Deferred(Box<Deferred>),
}

/// The state of one thread.
pub struct ThreadState {
    reader: Reader,
    turns: Turns,
    counts: Arc<Counts>,
}

impl Resolver {
    pub fn new(config: Config) -> Self {
        let metrics = Arc::new(Metrics::default());
        Self {
            cache: Arc::new(Cache::new(config.cache.clone())),
            limit: rate_limit(&config),
            published: Arc::default(),
            task_counts: metrics.counts(),
            waiting: Arc::new(Waiting::new(config.forward.max_concurrent)),
            in_flight: Arc::default(),
            metrics,
            forwarder: forwarder(&config),
            config,
        }
    }

    /// The same with other settings: it keeps the counters, and whatever the change does not concern. If the zones have
    /// other settings, a new zone must be published.
    pub fn with_config(&self, config: Config) -> Self {
        let old = &self.config;
        let is_same_forward = old.forward == config.forward;
        let (kept_cache, kept_limit) = (old.cache == config.cache, old.rate_limit == config.rate_limit);
        // What other upstreams answered may be wrong.
        let is_cache_kept = kept_cache && is_same_forward;
        Self {
            published: if old.zone == config.zone { self.published.clone() } else { Arc::default() },
            cache: if is_cache_kept { self.cache.clone() } else { Arc::new(Cache::new(config.cache.clone())) },
            forwarder: if is_same_forward { self.forwarder.clone() } else { forwarder(&config) },
            limit: if kept_limit { self.limit.clone() } else { rate_limit(&config) },
            metrics: self.metrics.clone(),
            task_counts: self.task_counts.clone(),
            waiting: if is_same_forward {
                self.waiting.clone()
            } else {
                Arc::new(Waiting::new(config.forward.max_concurrent))
            },
            in_flight: if is_cache_kept { self.in_flight.clone() } else { Arc::default() },
            config,
        }
    }

    /// The state of a thread that used another resolver before.
    pub(crate) fn adopt(&self, state: &mut ThreadState) {
        state.reader = Reader::new(self.published.clone());
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn thread_state(&self) -> ThreadState {
        ThreadState { reader: Reader::new(self.published.clone()), turns: Turns::new(), counts: self.metrics.counts() }
    }

    /// The state of an asynchronous task. All tasks share one set of counters.
    pub fn task_state(&self) -> ThreadState {
        let counts = self.task_counts.clone();
        ThreadState { reader: Reader::new(self.published.clone()), turns: Turns::new(), counts }
    }

    /// Answers a message if no upstream is needed. A query that must wait is admitted here, before it costs anything.
    pub fn handle(&self, state: &mut ThreadState, message: &[u8], client: Client, out: &mut Vec<u8>) -> Handled {
        let start = Instant::now();
        let query = match Query::parse(message) {
            Ok(query) => query,
            Err(Unanswerable::Ignored) => return Handled::Ignored,
            Err(Unanswerable::Error { id, flags, rcode }) => {
                Builder::error(id, flags, rcode, out);
                self.note_invalid(state, message, client, rcode, out.len(), start);
                return Handled::Answered;
            }
        };
        if self.is_over_limit(&query, client, start, state, out) {
            return if out.is_empty() { Handled::Ignored } else { Handled::Answered };
        }
        if let Some(denied) = self.denied(state, &query, client, start, out) {
            return denied;
        }
        let rcode = match self.attempt(state, &query, client, &[], start, out) {
            Step::Done(rcode) => rcode,
            Step::Forward(_) => match self.waiting.admit(client.address.ip()) {
                Ok(slot) => return Handled::Deferred(Box::new(Deferred::new(message, client, slot, start))),
                Err(refusal) => self.overflow(&query, refusal, out),
            },
        };
        self.note(state, &query, client, rcode, out.len(), start);
        Handled::Answered
    }

    /// What the access control lists withhold.
    fn denied(
        &self,
        state: &ThreadState,
        query: &Query<'_>,
        client: Client,
        start: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Handled> {
        let rcode = match acl::decide(&self.config.acl, &query.name, query.kind, client.address.ip()) {
            AclAction::Allow => return None,
            AclAction::Drop => return Some(Handled::Ignored),
            AclAction::Block => Rcode::REFUSED,
            AclAction::Filter => Rcode::NO_ERROR,
        };
        refuse(query, rcode, out);
        self.note(state, query, client, rcode, out.len(), start);
        Some(Handled::Answered)
    }

    /// CoreDNS refuses queries above `max_concurrent`, too: a client tries its next server at once.
    fn overflow(&self, query: &Query<'_>, refusal: Refusal, out: &mut Vec<u8>) -> Rcode {
        count(match refusal {
            Refusal::Full => &self.metrics.rejected,
            Refusal::Share => &self.metrics.over_share,
        });
        refuse(query, Rcode::REFUSED, out)
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
        let zone = state.reader.value().map(|zone| &**zone);
        let Self { config, forwarder, cache, metrics, .. } = self;
        let forwarder = forwarder.as_deref();
        Attempt { config, forwarder, cache, metrics, zone, query, client, known, now, turn, limit }.answer(out)
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

    /// Invalid and unsupported messages are counted, too.
    fn note_invalid(
        &self,
        state: &ThreadState,
        message: &[u8],
        client: Client,
        rcode: Rcode,
        size: usize,
        start: Instant,
    ) {
        let is_ipv6 = client.address.is_ipv6();
        let (zone, kind, wants_dnssec) = (ZoneKind::Other, 0, false);
        let request = Request { zone, is_tcp: client.is_tcp, is_ipv6, kind, wants_dnssec, size: message.len() };
        state.counts.answered(&request, rcode, size, start.elapsed());
    }

    pub(crate) fn note_panic(&self, message: &[u8]) {
        count(&self.metrics.panics);
        tracing::error!("a query caused a panic, which is a bug: {message:02x?}");
    }

    /// Changed settings were invalid.
    pub fn note_failed_reload(&self) {
        count(&self.metrics.failed_reloads);
    }

    /// A query was dropped because the server is behind.
    pub(crate) fn note_shed(&self) {
        count(&self.metrics.shed);
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

fn forwarder(config: &Config) -> Option<Arc<Forwarder>> {
    (!config.forward.routes.is_empty()).then(|| Arc::new(Forwarder::new(config.forward.clone())))
}

fn rate_limit(config: &Config) -> Option<Arc<RateLimit>> {
    config.rate_limit.map(|limit| Arc::new(RateLimit::new(limit, Instant::now())))
}

fn refuse(query: &Query<'_>, rcode: Rcode, out: &mut Vec<u8>) -> Rcode {
    let mut builder = Builder::new(query, UDP_LIMIT, out);
    builder.rcode(rcode);
    builder.finish();
    rcode
}
