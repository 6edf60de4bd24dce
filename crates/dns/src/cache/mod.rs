//! The cache of upstream answers. Entries are kept for their TTL, and longer as stale answers in case no upstream
//! answers. Negative answers and failures are kept apart: they neither evict nor replace answers with records.

mod config;
mod store;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wire::{Name, Rcode, Reply, kind};

use store::{Cached, Store};

pub use config::CacheConfig;

/// Separately locked shards, to reduce contention between threads.
const SHARDS: usize = 16;
/// How long an upstream failure is cached, in seconds.
const FAILURE_TTL: u32 = 5;

/// The question. Answers with and without DNSSEC records are cached separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub name: Name,
    pub kind: u16,
    pub wants_dnssec: bool,
    pub unchecked: bool,
}

impl Key {
    /// As short as the name, which a [`Name`] is not.
    fn to_octets(self) -> Vec<u8> {
        let [high, low] = self.kind.to_be_bytes();
        let flags = u8::from(self.wants_dnssec) | u8::from(self.unchecked) << 1;
        [self.name.as_bytes(), &[high, low, flags]].concat()
    }
}

#[derive(Clone, Debug)]
pub struct Hit {
    pub reply: Arc<Reply>,
    /// Seconds to subtract from the TTLs of the records.
    pub age: u32,
    /// Expired, and served because no upstream answers.
    pub is_stale: bool,
}

impl Hit {
    pub fn new(reply: Arc<Reply>) -> Self {
        Self { reply, age: 0, is_stale: false }
    }
}

#[derive(Debug)]
struct Shard {
    success: Store,
    denial: Store,
}

/// The contents of the cache, of answers with records and of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSizes {
    pub entries: [usize; 2],
    pub octets: [usize; 2],
    pub evicted: [u64; 2],
}

#[derive(Debug)]
pub struct Cache {
    config: CacheConfig,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

impl Cache {
    pub fn new(config: CacheConfig) -> Self {
        let octets = config.max_octets / SHARDS;
        let shard = || Shard {
            success: Store::new(config.capacity.div_ceil(SHARDS), octets / 4 * 3),
            denial: Store::new(config.negative_capacity.div_ceil(SHARDS), octets / 4),
        };
        let shards = std::array::from_fn(|_| Mutex::new(shard()));
        Self { config, hasher: RandomState::new(), shards }
    }

    /// While a failure is cached, an expired answer is returned in its place.
    pub fn get(&self, key: &Key, now: Instant) -> Option<Hit> {
        let (key, mut shard) = self.shard(key);
        if let Some(kept) = shard.success.get(&key).filter(|kept| now < kept.until) {
            return Some(kept.hit(now));
        }
        let hit = shard.denial.get(&key).filter(|kept| now < kept.until)?.hit(now);
        let is_failure = hit.reply.rcode() == Rcode::SERVER_FAILURE;
        let stale = if is_failure { self.stale_in(&mut shard, &key, now) } else { None };
        stale.or(Some(hit))
    }

    /// An expired answer that is still within `serve_stale`.
    pub fn stale(&self, key: &Key, now: Instant) -> Option<Hit> {
        let (key, mut shard) = self.shard(key);
        self.stale_in(&mut shard, &key, now)
    }

    fn stale_in(&self, shard: &mut Shard, key: &[u8], now: Instant) -> Option<Hit> {
        let is_usable =
            |kept: &&Cached| now < kept.until + self.config.serve_stale && kept.reply.rcode() != Rcode::SERVER_FAILURE;
        let found = shard.success.get(key).filter(is_usable).map(|kept| kept.reply.clone());
        let found = found.or_else(|| shard.denial.get(key).filter(is_usable).map(|kept| kept.reply.clone()));
        found.map(|reply| Hit { reply, age: 0, is_stale: true })
    }

    /// Caches an answer if it is cacheable. It replaces an earlier one, except that a failure does not replace an
    /// answer.
    pub fn put(&self, key: Key, reply: &Arc<Reply>, now: Instant) {
        let (key, mut shard) = self.shard(&key);
        let is_failure = reply.rcode() == Rcode::SERVER_FAILURE;
        if is_failure && shard.denial.get(&key).is_some_and(|kept| kept.reply.rcode() != Rcode::SERVER_FAILURE) {
            return;
        }
        let is_answer = matches!(reply.rcode(), Rcode::NO_ERROR | Rcode::NX_DOMAIN);
        if is_answer {
            shard.denial.remove(&key);
        }
        let lifetime = self.lifetime(reply).filter(|lifetime| !lifetime.is_zero());
        match lifetime.map(|lifetime| now + lifetime) {
            Some(until) if is_negative(reply) => {
                if is_answer {
                    shard.success.remove(&key);
                }
                shard.denial.put(&key, reply, now, until);
            }
            Some(until) => shard.success.put(&key, reply, now, until),
            None if is_answer => _ = shard.success.remove(&key),
            None => {}
        }
    }

    /// Clients see no TTL above the configured one, whether the answer comes from the cache or not.
    pub fn cap_ttls(&self, reply: &mut Reply) {
        let longest = if is_negative(reply) { self.config.max_negative_ttl } else { self.config.max_ttl };
        let longest = u32::try_from(longest.as_secs()).unwrap_or(u32::MAX);
        let records = reply.answers.iter_mut().chain(&mut reply.authorities).chain(&mut reply.additional);
        records.for_each(|record| record.ttl = record.ttl.min(longest));
    }

    /// How long an answer may be cached.
    fn lifetime(&self, reply: &Reply) -> Option<Duration> {
        let (ttl, longest) = match reply.rcode() {
            Rcode::SERVER_FAILURE => (FAILURE_TTL, self.config.max_negative_ttl),
            Rcode::NO_ERROR | Rcode::NX_DOMAIN if is_negative(reply) => {
                (negative_ttl(reply)?, self.config.max_negative_ttl)
            }
            Rcode::NO_ERROR => (least_ttl(reply), self.config.max_ttl),
            _ => return None,
        };
        Some(Duration::from_secs(ttl.into()).max(self.config.min_ttl).min(longest))
    }

    pub fn sizes(&self) -> CacheSizes {
        let mut sizes = CacheSizes::default();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (index, store) in [&shard.success, &shard.denial].into_iter().enumerate() {
                sizes.entries[index] += store.entries();
                sizes.octets[index] += store.octets();
                sizes.evicted[index] += store.evicted;
            }
        }
        sizes
    }

    fn shard(&self, key: &Key) -> (Vec<u8>, MutexGuard<'_, Shard>) {
        let key = key.to_octets();
        let index = self.hasher.hash_one(&key) as usize % SHARDS;
        (key, self.shards[index].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cached {
    fn hit(&self, now: Instant) -> Hit {
        let age = now.saturating_duration_since(self.since).as_secs() as u32;
        Hit { reply: self.reply.clone(), age, is_stale: false }
    }
}

/// Without records, or without the name: NXDOMAIN may come with an alias.
fn is_negative(reply: &Reply) -> bool {
    reply.rcode() != Rcode::NO_ERROR || reply.answers.is_empty()
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
