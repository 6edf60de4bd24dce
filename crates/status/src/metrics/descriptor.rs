//! The fixed properties of a metric, and the value of one series.

use std::sync::Arc;

/// The fixed properties of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Counter,
    Gauge,
    /// With the upper bounds of its buckets, ascending; the bucket above them is implicit.
    Histogram(Arc<[f64]>),
}

impl Kind {
    /// `count` bounds that start with `first` and double.
    pub(crate) fn doubling(first: f64, count: i32) -> Self {
        Self::Histogram((0..count).map(|power| first * 2f64.powi(power)).collect())
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Value {
    /// The value; for a histogram the sum of all observations.
    pub(crate) number: f64,
    /// The number of observations in each bucket; one more for those above all bounds.
    pub(crate) buckets: Box<[u64]>,
}
