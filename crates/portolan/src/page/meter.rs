//! Rates from two readings of the counters. They are read only while a page asks, and take a small part of a processor.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use portolan_dataplane::traffic::{TrafficSample, Usage};
use portolan_kernel::thread_cpu_time;
use portolan_model::ServiceName;
use portolan_page::{Rates, RefusalAnswer};
use portolan_plan::Reason;

/// The time between two readings: at least this, and so much that a reading takes this part of it.
const LEAST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(60);
const PART: u32 = 2_000;
/// A reading that is older says nothing about the present.
const STALE: Duration = Duration::from_secs(150);
/// Services whose endpoints are measured.
const MOST_WATCHED: usize = 16;

type Count = [u64; 3];
type EndpointCounts = BTreeMap<String, Count>;

#[derive(Default)]
pub(super) struct Meter {
    last: Option<(Instant, Totals)>,
    rates: Option<Rates>,
    refused: BTreeMap<Reason, f64>,
    next: Option<Instant>,
    /// When the reading began, and the processor time of this thread by then.
    begun: Option<(Instant, Duration)>,
    number: u64,
}

/// What one reading is about.
pub(super) struct Reading {
    watched: BTreeSet<String>,
}

/// Connections, bytes and packets since the start.
#[derive(Default)]
pub(super) struct Totals {
    services: HashMap<ServiceName, Count>,
    endpoints: BTreeMap<String, EndpointCounts>,
    refusals: BTreeMap<Reason, u64>,
    is_full: bool,
}

impl Reading {
    pub(super) fn of(&self, sample: &TrafficSample) -> Totals {
        let mut totals = Totals { is_full: sample.is_full, ..Totals::default() };
        for (key, traffic) in &sample.services {
            let name = &key.name.service;
            add(totals.services.entry(name.clone()).or_default(), &traffic.total);
            if !self.watched.is_empty() && self.watched.contains(&name.to_string()) {
                let endpoints = totals.endpoints.entry(name.to_string()).or_default();
                for (socket, usage) in &traffic.endpoints {
                    add(endpoints.entry(format!("{socket} {}", key.name.protocol)).or_default(), usage);
                }
            }
        }
        for ((_, refusal), count) in &sample.refusals {
            *totals.refusals.entry(refusal.reason()).or_default() += count.packets;
        }
        totals
    }
}

fn add(count: &mut Count, usage: &Usage) {
    let Usage { connections, requests, replies } = usage;
    let more = [*connections, requests.bytes + replies.bytes, requests.packets + replies.packets];
    count.iter_mut().zip(more).for_each(|(count, more)| *count += more);
}

impl Meter {
    /// A reading, if one is due.
    pub(super) fn begin(&mut self, services: &[String]) -> Option<Reading> {
        let now = Instant::now();
        self.rest();
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.begun = Some((now, thread_cpu_time()));
        self.next = Some(now + LEAST);
        Some(Reading { watched: services.iter().take(MOST_WATCHED).cloned().collect() })
    }

    /// `None` where the mode does not count.
    pub(super) fn finish(&mut self, totals: Option<Totals>) {
        let (Some(totals), Some((begun, busy))) = (totals, self.begun.take()) else { return };
        let took = thread_cpu_time().saturating_sub(busy);
        self.next = Some(begun + (took * PART).clamp(LEAST, MOST));
        self.number += 1;
        if let Some((at, last)) = &self.last {
            let seconds = begun.duration_since(*at).as_secs_f64();
            self.refused = refused(last, &totals, seconds);
            self.rates = Some(rates(self.number, last, &totals, seconds));
        }
        self.last = Some((begun, totals));
    }

    /// `None` if they are those of this reading.
    pub(super) fn rates_after(&self, known: u64) -> Option<Rates> {
        self.rates.as_ref().filter(|rates| rates.reading != known).cloned()
    }

    pub(super) fn refusals(&self) -> (Vec<RefusalAnswer>, bool) {
        let Some((_, totals)) = &self.last else { return Default::default() };
        let answer = |(reason, packets): (&Reason, &u64)| RefusalAnswer {
            reason: reason.to_string(),
            words: reason.in_words().into(),
            packets: *packets,
            per_second: self.rates.as_ref().map(|_| self.refused.get(reason).copied().unwrap_or(0.0)),
        };
        (totals.refusals.iter().map(answer).collect(), totals.is_full)
    }

    /// Forgets a reading that is too old, and the memory that it takes.
    pub(super) fn rest(&mut self) {
        if self.last.as_ref().is_some_and(|(at, _)| at.elapsed() > STALE) {
            (self.last, self.rates, self.refused) = Default::default();
        }
    }
}

fn refused(last: &Totals, now: &Totals, seconds: f64) -> BTreeMap<Reason, f64> {
    let before = |reason: &Reason| last.refusals.get(reason).copied().unwrap_or(0);
    now.refusals
        .iter()
        .map(|(reason, count)| (*reason, count.saturating_sub(before(reason)) as f64 / seconds))
        .collect()
}

fn rates(reading: u64, last: &Totals, now: &Totals, seconds: f64) -> Rates {
    let of_service = |(name, count): (&ServiceName, &Count)| {
        let before = last.services.get(name).copied().unwrap_or_default();
        per_second(count, &before, seconds).map(|rate| (name.to_string(), rate))
    };
    let of_endpoints = |(name, counts): (&String, &EndpointCounts)| {
        let before = last.endpoints.get(name)?;
        let of_endpoint = |(endpoint, count): (&String, &Count)| {
            let before = before.get(endpoint).copied().unwrap_or_default();
            (endpoint.clone(), per_second(count, &before, seconds).unwrap_or_default())
        };
        Some((name.clone(), counts.iter().map(of_endpoint).collect()))
    };
    Rates {
        reading,
        seconds,
        services: now.services.iter().filter_map(of_service).collect(),
        endpoints: now.endpoints.iter().filter_map(of_endpoints).collect(),
    }
}

/// `None` without traffic.
fn per_second(now: &Count, before: &Count, seconds: f64) -> Option<[f64; 3]> {
    let rate = |index: usize| (now[index].saturating_sub(before[index]) as f64 / seconds * 10.0).round() / 10.0;
    (now != before).then(|| [0, 1, 2].map(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(name: &str, count: Count) -> Totals {
        let services = [(ServiceName::new("default", name), count)].into();
        let endpoints = [(format!("default/{name}"), [("10.0.0.1:80 TCP".to_owned(), count)].into())].into();
        Totals { services, endpoints, refusals: [(Reason::NoEndpoints, count[0])].into(), is_full: false }
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let (before, after) = (totals("web", [10, 1_000, 50]), totals("web", [30, 5_000, 50]));
        let rates = rates(2, &before, &after, 2.0);
        assert_eq!(rates.services["default/web"], [10.0, 2_000.0, 0.0]);
        assert_eq!(rates.endpoints["default/web"]["10.0.0.1:80 TCP"], [10.0, 2_000.0, 0.0]);
        assert_eq!(refused(&before, &after, 2.0)[&Reason::NoEndpoints], 10.0);
        // A counter that restarted, and one without traffic.
        assert_eq!(super::rates(3, &after, &before, 2.0).services["default/web"], [0.0, 0.0, 0.0]);
        assert!(super::rates(3, &after, &totals("web", [30, 5_000, 50]), 2.0).services.is_empty());
    }

    #[test]
    fn a_reading_is_due_after_a_while_only() {
        let mut meter = Meter::default();
        assert!(meter.begin(&[]).is_some() && meter.begin(&[]).is_none());
        meter.finish(Some(totals("web", [1, 1, 1])));
        assert!(meter.begin(&[]).is_none() && meter.rates_after(0).is_none());
    }
}
