//! The objects of a list in the order in which they arrive; of several with one key, the latest counts.
//!
//! One growing allocation. The nodes of a map would lie between the objects, which stay, and leave holes in the heap when
//! the list is done.

#[derive(Debug)]
pub(super) struct Arrivals<K, V>(Vec<(K, Option<V>)>);

impl<K, V> Default for Arrivals<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Arrivals<K, V> {
    pub(super) fn insert(&mut self, key: K, value: V) {
        self.0.push((key, Some(value)));
    }

    pub(super) fn remove(&mut self, key: K) {
        self.0.push((key, None));
    }

    /// Sorted by key, each key once, without what was removed.
    pub(super) fn into_latest(mut self) -> Vec<(K, V)> {
        self.0.reverse();
        // Stable: of equal keys, the latest arrival stays first.
        self.0.sort_by(|left, right| left.0.cmp(&right.0));
        self.0.dedup_by(|later, first| later.0 == first.0);
        self.0.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Arrivals;

    #[test]
    fn the_latest_arrival_counts() {
        let mut arrivals = Arrivals::default();
        arrivals.insert("b", 1);
        arrivals.insert("a", 2);
        arrivals.insert("b", 3);
        arrivals.insert("c", 4);
        arrivals.remove("a");
        arrivals.remove("c");
        arrivals.insert("c", 5);
        assert_eq!(arrivals.into_latest(), [("b", 3), ("c", 5)]);
    }
}
