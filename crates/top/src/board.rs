//! The rows of all readings so far, with rates.

use std::collections::BTreeMap;

use portolan_explain::top::{TopAnswer, TopEndpoint, TopRow, Totals};

use crate::Reading;
use crate::changes::Changes;

#[derive(Clone, Debug, Default)]
pub struct Board {
    pub node: String,
    pub mode: String,
    pub rows: BTreeMap<String, Live<TopRow>>,
    /// By reason.
    pub refusals: BTreeMap<String, Refused>,
    /// The endpoints that were asked for last; `None` if their Service is gone.
    pub endpoints: Option<Vec<Live<TopEndpoint>>>,
    pub notes: Vec<String>,
    pub changes: Changes,
    at: Option<u64>,
}

/// A row, and its rates once there are two readings.
#[derive(Clone, Debug)]
pub struct Live<T> {
    pub row: T,
    pub rates: Option<Rates>,
    /// Changes of the Service in the log.
    pub changes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub connections: f64,
    /// In both directions.
    pub bytes: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Refused {
    pub total: u64,
    pub rate: Option<f64>,
}

impl Board {
    pub fn take(&mut self, reading: Reading) {
        let Reading { answer, changes } = reading;
        changes.iter().for_each(|change| self.changes.add(change));
        let seconds = self.seconds_until(&answer);
        self.take_rows(&answer, seconds);
        self.take_endpoints(answer.endpoints, seconds);
        self.take_refusals(&answer.refusals, seconds);
        (self.node, self.mode, self.notes, self.at) = (answer.node, answer.mode, answer.notes, Some(answer.at));
    }

    /// `None` for the first reading, for one that the daemon repeats, and after a restart of the daemon.
    fn seconds_until(&self, answer: &TopAnswer) -> Option<f64> {
        let milliseconds = answer.at.checked_sub(self.at?)?;
        (milliseconds > 0).then(|| milliseconds as f64 / 1000.0)
    }

    fn take_rows(&mut self, answer: &TopAnswer, seconds: Option<f64>) {
        let before = if answer.is_whole { std::mem::take(&mut self.rows) } else { BTreeMap::new() };
        // A row that the answer leaves out has the same totals as before.
        if seconds.is_some() {
            self.rows.values_mut().for_each(|live| live.rates = Some(Rates::default()));
        }
        answer.removed.iter().for_each(|service| _ = self.rows.remove(service));
        for row in &answer.rows {
            let known = before.get(&row.service).or_else(|| self.rows.get(&row.service));
            let totals = known.map(|live| live.row.totals);
            let rates = match seconds {
                // The Service is new, and so is all its traffic; or the reader is new, and has no rates yet.
                Some(seconds) => Some(Rates::between(totals.unwrap_or_default(), row.totals, seconds)),
                None => known.and_then(|live| live.rates),
            };
            self.rows.insert(row.service.clone(), Live { row: row.clone(), rates, changes: 0 });
        }
        self.rows.iter_mut().for_each(|(service, live)| live.changes = self.changes.of(service));
    }

    fn take_endpoints(&mut self, endpoints: Option<Vec<TopEndpoint>>, seconds: Option<f64>) {
        let before: BTreeMap<String, Live<TopEndpoint>> =
            self.endpoints.take().into_iter().flatten().map(|live| (live.row.endpoint.clone(), live)).collect();
        let live = |row: TopEndpoint| {
            let known = before.get(&row.endpoint);
            let rates = match (seconds, known) {
                (Some(seconds), Some(known)) => Some(Rates::between(known.row.totals, row.totals, seconds)),
                (None, Some(known)) => known.rates,
                (_, None) => None,
            };
            Live { row, rates, changes: 0 }
        };
        self.endpoints = endpoints.map(|endpoints| endpoints.into_iter().map(live).collect());
    }

    fn take_refusals(&mut self, refusals: &[(String, u64)], seconds: Option<f64>) {
        if seconds.is_some() {
            self.refusals.values_mut().for_each(|refused| refused.rate = Some(0.0));
        }
        for (reason, total) in refusals {
            let known = self.refusals.get(reason).copied();
            let before = known.map_or(if self.at.is_some() { 0 } else { *total }, |it| it.total);
            let rate = seconds.map(|seconds| since(before, *total) as f64 / seconds);
            let rate = rate.or(known.and_then(|it| it.rate));
            self.refusals.insert(reason.clone(), Refused { total: *total, rate });
        }
    }

    /// The endpoints of another Service have no readings yet.
    pub fn forget_endpoints(&mut self) {
        self.endpoints = None;
    }

    /// Whether there was a reading.
    pub fn is_known(&self) -> bool {
        self.at.is_some()
    }
}

impl Rates {
    fn between(before: Totals, now: Totals, seconds: f64) -> Self {
        let bytes = since(before.bytes_from_clients, now.bytes_from_clients)
            + since(before.bytes_to_clients, now.bytes_to_clients);
        let connections = since(before.connections, now.connections);
        Self { connections: connections as f64 / seconds, bytes: bytes as f64 / seconds }
    }
}

/// A total that is lower than before has restarted, and how much of it is new cannot be known.
fn since(before: u64, now: u64) -> u64 {
    now.saturating_sub(before)
}
