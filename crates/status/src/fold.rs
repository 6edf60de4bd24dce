//! Bounds the number of series: the busiest have their own, all others share one.
//!
//! A series that appears and disappears is worse than none, because its rate is wrong at both ends. A series is
//! therefore kept as long as its subject exists, and the shared series only grows, by the growth of its members.

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::Counters;

#[derive(Debug)]
pub(crate) struct Fold<Key> {
    limit: usize,
    shown: BTreeMap<Key, Counters>,
    /// The last counters of the members of the shared series, to compute their growth.
    folded: BTreeMap<Key, Counters>,
    others: Counters,
}

impl<Key: Ord + Clone> Fold<Key> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, shown: BTreeMap::new(), folded: BTreeMap::new(), others: Counters::default() }
    }

    pub(crate) fn shown(&self) -> impl Iterator<Item = (&Key, Counters)> {
        self.shown.iter().map(|(key, counters)| (key, *counters))
    }

    /// The shared series; `None` if all have always had their own.
    pub(crate) fn others(&self) -> Option<Counters> {
        (self.others != Counters::default()).then_some(self.others)
    }

    pub(crate) fn n_folded(&self) -> usize {
        self.folded.len()
    }

    pub(crate) fn update(&mut self, sample: Vec<(Key, Counters)>) {
        let mut sample = busy(sample);
        self.shown.retain(|key, _| sample.contains_key(key));
        for (key, counters) in &mut self.shown {
            *counters = sample.remove(key).unwrap_or_default();
        }
        for key in self.newly_shown(&sample) {
            let counters = sample.remove(&key).unwrap_or_default();
            self.shown.insert(key, counters);
        }
        for (key, counters) in &sample {
            self.others += self.growth(key, *counters);
        }
        self.folded = sample;
    }

    /// The busiest since the last scrape get the free series.
    fn newly_shown(&self, candidates: &BTreeMap<Key, Counters>) -> BTreeSet<Key> {
        let free = self.limit.saturating_sub(self.shown.len());
        if candidates.len() <= free {
            return candidates.keys().cloned().collect();
        }
        let mut ranked: Vec<(Counters, &Key)> =
            candidates.iter().map(|(key, counters)| (self.growth(key, *counters), key)).collect();
        ranked.sort_unstable_by(|(one, first), (other, second)| other.cmp(one).then_with(|| first.cmp(second)));
        ranked.into_iter().take(free).map(|(_, key)| key.clone()).collect()
    }

    fn growth(&self, key: &Key, counters: Counters) -> Counters {
        counters.since(self.folded.get(key).copied().unwrap_or_default())
    }
}

/// Those with any traffic; duplicates are added up.
fn busy<Key: Ord>(sample: Vec<(Key, Counters)>) -> BTreeMap<Key, Counters> {
    let mut busy: BTreeMap<Key, Counters> = BTreeMap::new();
    for (key, counters) in sample.into_iter().filter(|(_, counters)| *counters != Counters::default()) {
        *busy.entry(key).or_default() += counters;
    }
    busy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Volume;

    fn connections(connections: u64) -> Counters {
        let volume = Volume { packets: connections, bytes: connections };
        Counters { connections, requests: volume, replies: volume, ..Counters::default() }
    }

    fn fold(limit: usize, samples: &[&[(&'static str, u64)]]) -> Fold<&'static str> {
        let mut fold = Fold::new(limit);
        for sample in samples {
            fold.update(sample.iter().map(|(key, count)| (*key, connections(*count))).collect());
        }
        fold
    }

    fn shown(fold: &Fold<&'static str>) -> Vec<(&'static str, u64)> {
        fold.shown().map(|(key, counters)| (*key, counters.connections)).collect()
    }

    #[test]
    fn the_busiest_have_series_and_the_rest_are_summed() {
        let fold = fold(2, &[&[("a", 1), ("b", 9), ("c", 5), ("d", 2), ("idle", 0)]]);
        assert_eq!(shown(&fold), [("b", 9), ("c", 5)]);
        assert_eq!((fold.others(), fold.n_folded()), (Some(connections(3)), 2));
    }

    #[test]
    fn a_series_is_kept() {
        let fold = fold(1, &[&[("a", 5), ("b", 1)], &[("a", 5), ("b", 100)]]);
        assert_eq!(shown(&fold), [("a", 5)]);
        assert_eq!(fold.others(), Some(connections(100)));
    }

    #[test]
    fn the_sum_never_shrinks() {
        let fold = fold(1, &[&[("a", 5), ("b", 3), ("c", 1)], &[("b", 4), ("c", 1)], &[("b", 4)]]);
        assert_eq!(shown(&fold), [("b", 4)]);
        assert_eq!((fold.others(), fold.n_folded()), (Some(connections(4)), 0));
    }

    #[test]
    fn a_counter_that_was_reset_adds_its_value() {
        let fold = fold(0, &[&[("a", 7)], &[("a", 2)]]);
        assert_eq!(fold.others(), Some(connections(9)));
    }

    #[test]
    fn below_the_limit_nothing_is_folded() {
        let fold = fold(2, &[&[("a", 1), ("b", 1)]]);
        assert_eq!((shown(&fold).len(), fold.others()), (2, None));
    }
}
