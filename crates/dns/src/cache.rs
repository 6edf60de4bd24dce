//! The cache of upstream answers. Entries are kept for their TTL, and longer as stale answers in case no upstream
//! answers.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::wire::{Name, Rcode, Reply, kind};

/// Separately locked shards, to reduce contention between threads.
const SHARDS: usize = 16;
/// The TTL of a stale answer (RFC 8767).
const STALE_TTL: u32 = 30;
/// How long an upstream failure is cached, in seconds.
const FAILURE_TTL: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The number of cached answers; 0 disables the cache.
    pub capacity: usize,
    pub max_ttl: Duration,
    pub max_negative_ttl: Duration,
    pub min_ttl: Duration,
    /// How long an expired answer may be served while no upstream answers.
    pub serve_stale: Duration,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            capacity: 9984,
            max_ttl: Duration::from_secs(3600),
            max_negative_ttl: Duration::from_secs(1800),
            min_ttl: Duration::from_secs(5),
            serve_stale: Duration::from_secs(3600),
        }
    }
}

/// The question. Answers with and without DNSSEC records are cached separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub name: Name,
    pub kind: u16,
    pub wants_dnssec: bool,
    pub unchecked: bool,
}

#[derive(Clone, Debug)]
pub struct Hit {
    pub reply: Arc<Reply>,
    /// Seconds to subtract from the TTLs of the records.
    pub age: u32,
}

#[derive(Debug)]
struct Cached {
    reply: Arc<Reply>,
    since: Instant,
    until: Instant,
    /// The sequence number of the insertion, to find its position in the order.
    number: u64,
}

#[derive(Debug, Default)]
struct Shard {
    kept: HashMap<Key, Cached>,
    order: VecDeque<(u64, Key)>,
    inserted: u64,
}

#[derive(Debug)]
pub struct Cache {
    config: CacheConfig,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

impl Cache {
    pub fn new(config: CacheConfig) -> Self {
        Self { config, hasher: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    pub fn get(&self, key: &Key, now: Instant) -> Option<Hit> {
        let shard = self.shard(key);
        let kept = shard.kept.get(key).filter(|kept| now < kept.until)?;
        Some(Hit { reply: kept.reply.clone(), age: now.duration_since(kept.since).as_secs() as u32 })
    }

    /// An expired answer that is still within `serve_stale`.
    pub fn stale(&self, key: &Key, now: Instant) -> Option<Hit> {
        let mut shard = self.shard(key);
        let kept = shard.kept.get_mut(key).filter(|kept| now < kept.until + self.config.serve_stale)?;
        Some(Hit { reply: Arc::new(with_ttl(&kept.reply, STALE_TTL)), age: 0 })
    }

    /// Caches an answer if it is cacheable.
    pub fn put(&self, key: Key, reply: &Arc<Reply>, now: Instant) {
        let Some(lifetime) = self.lifetime(reply).filter(|lifetime| !lifetime.is_zero() && self.config.capacity > 0)
        else {
            return;
        };
        let capacity = (self.config.capacity / SHARDS).max(1);
        let mut shard = self.shard(&key);
        shard.inserted += 1;
        let number = shard.inserted;
        let kept = Cached { reply: reply.clone(), since: now, until: now + lifetime, number };
        shard.kept.insert(key, kept);
        shard.order.push_back((number, key));
        shard.shrink(capacity);
    }

    /// How long an answer may be cached.
    fn lifetime(&self, reply: &Reply) -> Option<Duration> {
        let is_negative = reply.rcode() == Rcode::NX_DOMAIN || reply.answers.is_empty();
        let (ttl, longest) = match reply.rcode() {
            Rcode::NO_ERROR | Rcode::NX_DOMAIN if is_negative => (negative_ttl(reply)?, self.config.max_negative_ttl),
            Rcode::NO_ERROR => (least_ttl(reply), self.config.max_ttl),
            Rcode::SERVER_FAILURE => (FAILURE_TTL, self.config.max_negative_ttl),
            _ => return None,
        };
        Some(Duration::from_secs(ttl.into()).max(self.config.min_ttl).min(longest))
    }

    /// The number of cached answers: with records, and negative ones.
    pub fn sizes(&self) -> (usize, usize) {
        let mut sizes = (0, 0);
        for shard in &self.shards {
            for kept in shard.lock().unwrap_or_else(PoisonError::into_inner).kept.values() {
                *(if kept.reply.answers.is_empty() { &mut sizes.1 } else { &mut sizes.0 }) += 1;
            }
        }
        sizes
    }

    fn shard(&self, key: &Key) -> std::sync::MutexGuard<'_, Shard> {
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Evicts the oldest entries. Entries of the order whose answer was replaced since are skipped.
    fn shrink(&mut self, capacity: usize) {
        while self.kept.len() > capacity || self.order.len() > 2 * capacity {
            let Some((number, key)) = self.order.pop_front() else { return };
            if self.kept.get(&key).is_some_and(|kept| kept.number == number) {
                self.kept.remove(&key);
            }
        }
    }
}

fn least_ttl(reply: &Reply) -> u32 {
    let records = reply.answers.iter().chain(&reply.authorities).chain(&reply.additional);
    records.map(|record| record.ttl).min().unwrap_or(0)
}

/// From the SOA record of the zone (RFC 2308); without one, the answer is not cached.
fn negative_ttl(reply: &Reply) -> Option<u32> {
    let soa = reply.authorities.iter().find(|record| record.kind == kind::SOA)?;
    let minimum = u32::from_be_bytes(*soa.data.last_chunk()?);
    Some(minimum.min(soa.ttl))
}

fn with_ttl(reply: &Reply, ttl: u32) -> Reply {
    let mut reply = reply.clone();
    let records = reply.answers.iter_mut().chain(&mut reply.authorities).chain(&mut reply.additional);
    records.for_each(|record| record.ttl = ttl);
    reply
}
