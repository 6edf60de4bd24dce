//! A bounded part of the cache: positive or negative answers of one shard.
//!
//! Two queues decide what is evicted (as in S3-FIFO): a new answer enters the small one, and moves to the main one if
//! it is asked for again before it leaves. So a flood of names that are asked for once passes through a tenth of the
//! room, and does not evict what is asked for often.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::wire::Reply;

/// The share of the small queue: one tenth.
const SMALL: usize = 10;
/// An answer with more hits is not kept longer.
const MAX_HITS: u8 = 3;
/// The allocator's and the maps' share of an entry, about.
const OVERHEAD: usize = 160;

#[derive(Debug)]
pub(super) struct Cached {
    pub(super) reply: Arc<Reply>,
    pub(super) since: Instant,
    pub(super) until: Instant,
    cost: usize,
    hits: u8,
    is_main: bool,
    /// Tells an entry from an earlier one of the same key, which may still be in a queue.
    number: u64,
}

/// A queue with the octets of its entries. Entries that were removed since are skipped.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<(u64, Arc<[u8]>)>,
    entries: usize,
    octets: usize,
}

#[derive(Debug)]
pub(super) struct Store {
    max_entries: usize,
    max_octets: usize,
    kept: HashMap<Arc<[u8]>, Cached>,
    small: Queue,
    main: Queue,
    inserted: u64,
    pub(super) evicted: u64,
}

impl Store {
    pub(super) fn new(max_entries: usize, max_octets: usize) -> Self {
        let (small, main) = (Queue::default(), Queue::default());
        Self { max_entries, max_octets, kept: HashMap::new(), small, main, inserted: 0, evicted: 0 }
    }

    pub(super) fn entries(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn octets(&self) -> usize {
        self.small.octets + self.main.octets
    }

    /// Counts as a use of the answer.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<&Cached> {
        let kept = self.kept.get_mut(key)?;
        kept.hits = (kept.hits + 1).min(MAX_HITS);
        Some(kept)
    }

    /// An answer that would take a quarter of the room is not kept. A replaced answer keeps its hits.
    pub(super) fn put(&mut self, key: &[u8], reply: &Arc<Reply>, since: Instant, until: Instant) {
        let cost = reply.octets() + 2 * key.len() + size_of::<Cached>() + OVERHEAD;
        let before = self.remove(key);
        if self.max_entries == 0 || cost > self.max_octets / 4 {
            return;
        }
        self.inserted += 1;
        let number = self.inserted;
        let (hits, is_main) = before.map_or((0, false), |before| (before.hits, before.is_main));
        let key: Arc<[u8]> = key.into();
        self.kept.insert(key.clone(), Cached { reply: reply.clone(), since, until, cost, hits, is_main, number });
        self.queue(is_main).push(number, key, cost);
        while self.kept.len() > self.max_entries || self.octets() > self.max_octets {
            self.evict();
        }
        self.drop_removed();
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Cached> {
        let kept = self.kept.remove(key)?;
        self.queue(kept.is_main).forget(kept.cost);
        Some(kept)
    }

    fn queue(&mut self, is_main: bool) -> &mut Queue {
        if is_main { &mut self.main } else { &mut self.small }
    }

    /// One step: evicts the next entry, or moves it to the end of the main queue if it was used.
    fn evict(&mut self) {
        let small = &self.small;
        let is_small_full = small.entries > self.max_entries / SMALL || small.octets > self.max_octets / SMALL;
        let is_main = self.main.entries > 0 && !(is_small_full && small.entries > 0);
        let Some((number, key)) = self.queue(is_main).order.pop_front() else { return };
        let Some(kept) = self.kept.get_mut(&key).filter(|kept| kept.number == number) else { return };
        let (cost, is_used) = (kept.cost, kept.hits > 0);
        if is_used {
            kept.hits = if is_main { kept.hits - 1 } else { 0 };
            kept.is_main = true;
            self.queue(is_main).forget(cost);
            self.main.push(number, key, cost);
        } else {
            self.remove(&key);
            self.evicted += 1;
        }
    }

    /// Entries that were replaced must not accumulate in the queues.
    fn drop_removed(&mut self) {
        let Self { kept, small, main, .. } = self;
        for queue in [small, main] {
            if queue.order.len() > 2 * queue.entries + 16 {
                queue.order.retain(|(number, key)| kept.get(key).is_some_and(|kept| kept.number == *number));
            }
        }
    }
}

impl Queue {
    fn push(&mut self, number: u64, key: Arc<[u8]>, cost: usize) {
        self.order.push_back((number, key));
        self.entries += 1;
        self.octets += cost;
    }

    fn forget(&mut self, cost: usize) {
        self.entries -= 1;
        self.octets -= cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &mut Store, key: usize) {
        let now = Instant::now();
        store.put(&key.to_be_bytes(), &Arc::default(), now, now);
    }

    #[test]
    fn names_asked_once_do_not_evict_names_asked_often() {
        let mut store = Store::new(100, 1 << 20);
        (0..50).for_each(|often| put(&mut store, often));
        for flood in 0..10_000usize {
            put(&mut store, 1000 + flood);
            assert!(store.get(&(flood % 50).to_be_bytes()).is_some(), "after {flood}");
        }
        assert_eq!(store.entries(), 100);
        assert!(store.small.order.len() + store.main.order.len() < 300);
    }

    #[test]
    fn names_that_are_no_longer_asked_make_room() {
        let mut store = Store::new(100, 1 << 20);
        for key in 0..1000 {
            put(&mut store, key);
            store.get(&key.to_be_bytes());
        }
        assert_eq!(store.entries(), 100);
        assert!(store.get(&0usize.to_be_bytes()).is_none());
    }

    #[test]
    fn replaced_and_removed_entries_leave_nothing_behind() {
        let mut store = Store::new(100, 1 << 20);
        for round in 0..1000 {
            put(&mut store, round % 3);
            store.remove(&(round % 2).to_be_bytes());
        }
        assert!(store.entries() <= 3 && store.small.order.len() < 30, "{}", store.small.order.len());
        (0..3usize).for_each(|key| _ = store.remove(&key.to_be_bytes()));
        assert_eq!((store.octets(), store.small.entries, store.main.entries), (0, 0, 0));
    }
}
