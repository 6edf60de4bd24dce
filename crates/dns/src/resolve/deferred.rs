//! Queries that wait for an upstream. What the upstream answers is gathered first; the response is built when it can be
//! sent, so that a client that does not read holds no response.

use std::sync::Arc;
use std::time::Instant;

use super::attempt::{Step, key};
use super::client::Client;
use super::in_flight::{Leader, wait};
use super::waiting::Slot;
use super::{Resolver, ThreadState, refuse};
use crate::cache::{Hit, Key};
use crate::metrics::count;
use crate::wire::{Name, Query, Rcode, Reply, kind};

/// The upstream queries that one client query may cause.
const MAX_UPSTREAM_QUERIES: usize = 12;

/// A query with the upstream answers so far.
pub struct Deferred {
    message: Box<[u8]>,
    client: Client,
    slot: Arc<Slot>,
    start: Instant,
    known: Vec<(Name, Hit)>,
}

impl Deferred {
    pub(super) fn new(message: &[u8], client: Client, slot: Arc<Slot>, start: Instant) -> Self {
        Self { message: message.into(), client, slot, start, known: Vec::new() }
    }
}

/// Counts a panic of the task that holds it.
pub(crate) struct PanicGuard(pub(crate) Arc<Resolver>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            count(&self.0.metrics.panics);
        }
    }
}

impl Resolver {
    /// Queries upstreams until the query can be answered.
    pub async fn gather(self: &Arc<Self>, deferred: &mut Deferred) {
        while let Some(key) = self.wanted(deferred) {
            let hit = self.forward(key, &deferred.slot).await;
            deferred.known.push((key.name, hit));
        }
    }

    /// What must be forwarded next.
    fn wanted(&self, deferred: &Deferred) -> Option<Key> {
        let query = Query::parse(&deferred.message).ok()?;
        if deferred.known.len() >= MAX_UPSTREAM_QUERIES {
            return None;
        }
        let mut out = Vec::new();
        match self.attempt(&mut self.task_state(), &query, deferred.client, &deferred.known, deferred.start, &mut out) {
            Step::Done(_) => None,
            Step::Forward(name) => Some(key(&query, *name)),
        }
    }

    /// Writes the response. Returns false if an answer that was cached a moment ago must be gathered again.
    pub fn complete(&self, state: &mut ThreadState, deferred: &Deferred, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Ok(query) = Query::parse(&deferred.message) else { return true };
        let Deferred { client, known, start, .. } = deferred;
        let rcode = match self.attempt(state, &query, *client, known, *start, out) {
            Step::Done(rcode) => rcode,
            Step::Forward(_) if known.len() < MAX_UPSTREAM_QUERIES => return false,
            Step::Forward(_) => refuse(&query, Rcode::SERVER_FAILURE, out),
        };
        self.note(state, &query, *client, rcode, out.len(), *start);
        true
    }

    /// The response to a query, for callers that can send it at any time.
    pub async fn finish(self: &Arc<Self>, deferred: &mut Deferred) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            self.gather(deferred).await;
            if self.complete(&mut self.task_state(), deferred, &mut out) {
                return out;
            }
        }
    }

    /// The upstream query is a task of its own: it goes on for other clients when this one is gone.
    async fn forward(self: &Arc<Self>, key: Key, slot: &Arc<Slot>) -> Hit {
        let (answer, leader) = self.in_flight.join(key);
        if let Some(leader) = leader {
            tokio::spawn(self.clone().lead(leader, slot.clone()));
        }
        wait(answer).await.unwrap_or_else(|| failure(Rcode::SERVER_FAILURE))
    }

    async fn lead(self: Arc<Self>, leader: Box<Leader>, _slot: Arc<Slot>) {
        let _guard = PanicGuard(self.clone());
        leader.publish(self.query_upstream(&leader.key).await);
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
            Ok(mut reply) => {
                self.cache.cap_ttls(&mut reply);
                let reply = Arc::new(reply);
                self.cache.put(*key, &reply, Instant::now());
                let is_answer = matches!(reply.rcode(), Rcode::NO_ERROR | Rcode::NX_DOMAIN);
                let stale = if is_answer { None } else { self.stale(key, now) };
                stale.unwrap_or_else(|| Hit::new(reply))
            }
            Err(error) => self.stale(key, now).unwrap_or_else(|| {
                tracing::debug!("{} {}: {error}", key.name, kind::name(key.kind));
                failure(Rcode::SERVER_FAILURE)
            }),
        }
    }

    fn stale(&self, key: &Key, now: Instant) -> Option<Hit> {
        let hit = self.cache.stale(key, now)?;
        count(&self.metrics.served_stale);
        Some(hit)
    }
}

fn failure(rcode: Rcode) -> Hit {
    Hit::new(Arc::new(Reply { rcode: rcode.0, ..Reply::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::Config;

    #[test]
    fn a_task_that_panics_is_counted() {
        let resolver = Arc::new(Resolver::new(Config::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for is_broken in [false, true] {
            let guard = PanicGuard(resolver.clone());
            let task = async move {
                let _guard = guard;
                assert!(!is_broken, "a bug");
            };
            assert_eq!(runtime.block_on(runtime.spawn(task)).is_err(), is_broken);
            let counted = resolver.metrics.panics.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(counted, u64::from(is_broken));
        }
    }
}
