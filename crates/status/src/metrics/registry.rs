//! Counters, gauges and histograms with fixed labels, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::descriptor::{Descriptor, Kind, Value};
use super::text::Page;

/// One metric with all its series. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metric(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    descriptor: Descriptor,
    series: Mutex<BTreeMap<Vec<String>, Value>>,
}

impl Metric {
    fn new(descriptor: Descriptor) -> Self {
        Self(Arc::new(Shared { descriptor, series: Mutex::default() }))
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.0.descriptor
    }

    /// Creates the series with value 0.
    pub(crate) fn announce(&self, labels: &[&str]) {
        self.update(labels, |_| ());
    }

    pub(crate) fn add(&self, labels: &[&str], amount: f64) {
        self.update(labels, |value| value.number += amount);
    }

    pub(crate) fn set(&self, labels: &[&str], level: f64) {
        self.update(labels, |value| value.number = level);
    }

    pub(crate) fn observe(&self, labels: &[&str], observed: f64) {
        let Kind::Histogram(bounds) = &self.0.descriptor.kind else { return };
        let bucket = bounds.partition_point(|bound| *bound < observed);
        self.update(labels, |value| {
            value.number += observed;
            value.buckets[bucket] += 1;
        });
    }

    /// Removes all series, for a metric whose labels change as a whole.
    pub(crate) fn clear(&self) {
        self.series().clear();
    }

    fn update(&self, labels: &[&str], change: impl FnOnce(&mut Value)) {
        debug_assert_eq!(labels.len(), self.0.descriptor.labels.len(), "labels of {}", self.0.descriptor.name);
        let key: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        change(self.series().entry(key).or_insert_with(|| self.empty()));
    }

    fn empty(&self) -> Value {
        let buckets = match &self.0.descriptor.kind {
            Kind::Histogram(bounds) => vec![0; bounds.len() + 1],
            Kind::Counter | Kind::Gauge => Vec::new(),
        };
        Value { number: 0.0, buckets: buckets.into() }
    }

    fn series(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Value>> {
        self.0.series.lock().expect("the lock is not poisoned")
    }

    /// A metric without labels starts with 0; one with labels starts without series.
    fn write(&self, page: &mut Page) {
        if self.0.descriptor.labels.is_empty() {
            self.announce(&[]);
        }
        page.family(&self.0.descriptor, |family| {
            for (labels, value) in self.series().iter() {
                family.value(labels, value);
            }
        });
    }
}

/// All metrics of one page.
#[derive(Debug, Default)]
pub struct Registry(BTreeMap<&'static str, Metric>);

/// A metric whose series are computed on each scrape, and not stored.
pub(crate) struct Computed<'a> {
    pub(crate) descriptor: &'a Descriptor,
    pub(crate) series: Vec<(Vec<String>, f64)>,
}

impl Registry {
    pub(crate) fn register(&mut self, descriptor: Descriptor) -> Metric {
        let name = descriptor.name;
        let metric = Metric::new(descriptor);
        let before = self.0.insert(name, metric.clone());
        assert!(before.is_none(), "{name} is registered twice");
        metric
    }

    pub fn descriptors(&self) -> impl Iterator<Item = &Descriptor> {
        self.0.values().map(Metric::descriptor)
    }

    /// The page in the text format, ordered by name.
    pub(crate) fn render(&self, computed: Vec<Computed<'_>>) -> String {
        let mut computed: BTreeMap<&str, Computed<'_>> =
            computed.into_iter().map(|it| (it.descriptor.name, it)).collect();
        let mut page = Page::default();
        for (name, metric) in &self.0 {
            match computed.remove(name) {
                Some(computed) => computed.write(&mut page),
                None => metric.write(&mut page),
            }
        }
        page.finish()
    }
}

impl Computed<'_> {
    fn write(mut self, page: &mut Page) {
        self.series.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        page.family(self.descriptor, |family| {
            for (labels, number) in &self.series {
                family.value(labels, &Value { number: *number, buckets: [].into() });
            }
        });
    }
}
