//! The counters of one thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::wire::{Rcode, kind};

/// Record types that are counted separately; all others are counted together.
pub(crate) const KINDS: [u16; 12] = [
    kind::A,
    kind::AAAA,
    kind::SRV,
    kind::PTR,
    kind::CNAME,
    kind::NS,
    kind::SOA,
    kind::TXT,
    kind::MX,
    65,
    kind::ANY,
    kind::AXFR,
];
pub(crate) const RCODES: [Rcode; 7] = [
    Rcode::NO_ERROR,
    Rcode::FORMAT_ERROR,
    Rcode::SERVER_FAILURE,
    Rcode::NX_DOMAIN,
    Rcode::NOT_IMPLEMENTED,
    Rcode::REFUSED,
    Rcode::BAD_VERSION,
];

/// The bucket bounds of CoreDNS: from 0.25 ms, doubling.
const N_TIMES: usize = 16;
const FIRST_BOUND: Duration = Duration::from_micros(250);
pub(crate) const SIZES: [u64; 14] =
    [0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16_000, 32_000, 48_000, 64_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneKind {
    Cluster,
    Reverse,
    Other,
}

impl ZoneKind {
    pub(crate) const ALL: [Self; 3] = [Self::Cluster, Self::Reverse, Self::Other];
}

/// The properties of one query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) zone: ZoneKind,
    pub(crate) is_tcp: bool,
    pub(crate) is_ipv6: bool,
    pub(crate) kind: u16,
    pub(crate) wants_dnssec: bool,
    pub(crate) size: usize,
}

/// A histogram of durations or sizes.
#[derive(Debug)]
pub(crate) struct Histogram {
    pub(crate) buckets: [AtomicU64; N_TIMES + 1],
    /// Nanoseconds, or octets.
    pub(crate) sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub(crate) fn observe_time(&self, time: Duration) {
        let bucket = (0..N_TIMES as u32).find(|power| time <= FIRST_BOUND * (1 << power)).unwrap_or(N_TIMES as u32);
        count(&self.buckets[bucket as usize]);
        self.sum.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    fn observe_size(&self, size: usize) {
        let bucket = SIZES.partition_point(|bound| *bound < size as u64);
        count(&self.buckets[bucket]);
        self.sum.fetch_add(size as u64, Ordering::Relaxed);
    }

    pub(crate) fn time_bounds() -> impl Iterator<Item = f64> {
        (0..N_TIMES as u32).map(|power| FIRST_BOUND.as_secs_f64() * f64::from(1 << power))
    }

    pub(crate) fn add(&self, other: &Self) {
        let pairs = self.buckets.iter().zip(&other.buckets).chain([(&self.sum, &other.sum)]);
        for (mine, theirs) in pairs {
            mine.fetch_add(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// By zone, protocol, family and type.
    pub(crate) requests: [[[[AtomicU64; KINDS.len() + 1]; 2]; 2]; 3],
    pub(crate) dnssec: [AtomicU64; 3],
    pub(crate) responses: [[AtomicU64; RCODES.len() + 1]; 3],
    pub(crate) durations: [Histogram; 3],
    pub(crate) request_sizes: [Histogram; 2],
    pub(crate) response_sizes: [Histogram; 2],
}

impl Counts {
    pub(crate) fn answered(&self, request: &Request, rcode: Rcode, size: usize, time: Duration) {
        let zone = request.zone as usize;
        let kind = KINDS.iter().position(|known| *known == request.kind).unwrap_or(KINDS.len());
        count(&self.requests[zone][usize::from(request.is_tcp)][usize::from(request.is_ipv6)][kind]);
        if request.wants_dnssec {
            count(&self.dnssec[zone]);
        }
        let rcode = RCODES.iter().position(|known| *known == rcode).unwrap_or(RCODES.len());
        count(&self.responses[zone][rcode]);
        self.durations[zone].observe_time(time);
        self.request_sizes[usize::from(request.is_tcp)].observe_size(request.size);
        self.response_sizes[usize::from(request.is_tcp)].observe_size(size);
    }
}

/// Increments a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
