//! An answer from an upstream's reply without an upstream, for the fuzz targets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attempt::{Step, key};
use super::{Client, Resolver, refuse};
use crate::cache::Hit;
use crate::wire::{Query, Rcode, Reply};

/// The answer from the cache, or from the reply itself if that is not cached.
pub(crate) fn answer_with(
    resolver: &Resolver,
    query: &[u8],
    reply: &[u8],
    client: Client,
    later: Duration,
) -> Option<Vec<u8>> {
    let query = Query::parse(query).ok()?;
    let mut reply = Reply::parse(reply, query.id, query.question()).ok()?;
    resolver.cache.cap_ttls(&mut reply);
    let (now, reply, key) = (Instant::now(), Arc::new(reply), key(&query, query.name));
    resolver.cache.put(key, &reply, now);
    let hit = resolver.cache.get(&key, now + later).or_else(|| resolver.cache.stale(&key, now + later));
    let known = [(query.name, hit.unwrap_or_else(|| Hit::new(reply)))];
    let mut out = Vec::new();
    match resolver.attempt(&mut resolver.task_state(), &query, client, &known, now + later, &mut out) {
        Step::Done(_) => {}
        Step::Forward(_) => _ = refuse(&query, Rcode::SERVER_FAILURE, &mut out),
    }
    Some(out)
}
