//! The rows of the last reading, and which reading changed each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_dataplane::connections::Load;
use portolan_dataplane::traffic::TrafficSample;
use portolan_model::{DiffItem, Protocol, ServicePortName};
use portolan_plan::{Plan, PortKey};

use super::rows::{identity, planned};
use super::{Cursor, TopAnswer, TopRow, Totals};

/// A reader that is so many readings behind gets all rows.
const REMEMBERED: u64 = 600;

#[derive(Debug, Default)]
pub struct TopBook {
    number: u64,
    reading: u64,
    plan: Option<Plan>,
    rows: BTreeMap<Arc<ServicePortName>, Entry>,
    /// Rows that are gone, with the reading that found them so.
    removed: BTreeMap<String, u64>,
    /// Ports that had open connections at the last reading.
    busy: Vec<Arc<ServicePortName>>,
}

#[derive(Debug)]
struct Entry {
    row: TopRow,
    changed_in: u64,
}

impl TopBook {
    /// The number tells books of different daemons apart.
    pub fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// A new reading. Its cost follows what changed, and the number of ports with traffic.
    pub fn follow(&mut self, plan: &Plan, sample: &TrafficSample, load: &Load) {
        self.reading += 1;
        self.follow_plan(plan);
        self.follow_traffic(sample);
        self.follow_connections(load);
        let oldest = self.reading.saturating_sub(REMEMBERED);
        self.removed.retain(|_, reading| *reading >= oldest);
    }

    fn follow_plan(&mut self, plan: &Plan) {
        match self.plan.replace(plan.clone()) {
            None => plan.services.keys().for_each(|key| self.put(plan, &key.name)),
            Some(before) => {
                for (service, _) in before.facts().slices.diff(&plan.facts().slices).map(changed) {
                    plan.port_plans(service).for_each(|(key, _)| self.put(plan, &key.name));
                }
                for (key, _) in before.services.diff(&plan.services).map(changed) {
                    self.put(plan, &key.name);
                }
            }
        }
    }

    /// Writes what the plan says about a port.
    fn put(&mut self, plan: &Plan, name: &Arc<ServicePortName>) {
        let Some(row) = planned(plan, name) else { return self.remove(name) };
        let reading = self.reading;
        self.removed.remove(&row.service);
        let entry = self.rows.entry(name.clone()).or_insert_with(|| Entry { row: TopRow::default(), changed_in: 0 });
        let TopRow { totals, open, .. } = entry.row;
        let row = TopRow { totals, open: row.open.map(|none| open.unwrap_or(none)), ..row };
        entry.set(row, reading);
    }

    fn remove(&mut self, name: &Arc<ServicePortName>) {
        if self.rows.remove(name).is_some() {
            self.removed.insert(identity(name), self.reading);
        }
    }

    fn follow_traffic(&mut self, sample: &TrafficSample) {
        let mut counted: Vec<(&Arc<ServicePortName>, Totals)> = Vec::new();
        // The families of a port are next to each other.
        for (PortKey { name, .. }, traffic) in &sample.services {
            match counted.last_mut() {
                Some((last, totals)) if *last == name => totals.add(&traffic.total),
                _ => {
                    counted.push((name, Totals::default()));
                    counted.last_mut().expect("just pushed").1.add(&traffic.total);
                }
            }
        }
        for (name, totals) in counted {
            self.change(name, |row| row.totals = totals);
        }
    }

    fn follow_connections(&mut self, load: &Load) {
        let mut open = BTreeMap::<Arc<ServicePortName>, u32>::new();
        load.open().for_each(|(key, count)| *open.entry(key.name.clone()).or_default() += count);
        for name in std::mem::take(&mut self.busy) {
            open.entry(name).or_default();
        }
        for (name, count) in &open {
            self.change(name, |row| row.open = (name.protocol == Protocol::Tcp).then_some(*count));
        }
        self.busy = open.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect();
    }

    fn change(&mut self, name: &Arc<ServicePortName>, change: impl FnOnce(&mut TopRow)) {
        let reading = self.reading;
        if let Some(entry) = self.rows.get_mut(name) {
            let mut row = entry.row.clone();
            change(&mut row);
            entry.set(row, reading);
        }
    }

    /// The port that a row is about.
    pub fn port(&self, service: &str) -> Option<&ServicePortName> {
        self.rows.iter().find(|(_, entry)| entry.row.service == service).map(|(name, _)| &**name)
    }

    /// The rows that differ from what the reader has.
    pub fn answer(&self, since: Option<Cursor>) -> TopAnswer {
        let known = since.filter(|since| self.remembers(since)).map(|since| since.reading);
        let is_news = |reading: u64| known.is_none_or(|known| reading > known);
        let rows = self.rows.values().filter(|entry| is_news(entry.changed_in)).map(|entry| entry.row.clone());
        let removed = self.removed.iter().filter(|(_, reading)| known.is_some() && is_news(**reading));
        TopAnswer {
            cursor: Cursor { book: self.number, reading: self.reading },
            is_whole: known.is_none(),
            rows: rows.collect(),
            removed: removed.map(|(service, _)| service.clone()).collect(),
            ..TopAnswer::default()
        }
    }

    fn remembers(&self, since: &Cursor) -> bool {
        let is_recent = since.reading.saturating_add(REMEMBERED) > self.reading && since.reading <= self.reading;
        since.book == self.number && is_recent
    }
}

impl Entry {
    fn set(&mut self, row: TopRow, reading: u64) {
        if self.row != row {
            (self.row, self.changed_in) = (row, reading);
        }
    }
}

fn changed<'a, K, V>(item: DiffItem<'a, 'a, K, V>) -> (&'a K, &'a V) {
    match item {
        DiffItem::Add(key, value) | DiffItem::Remove(key, value) => (key, value),
        DiffItem::Update { new, .. } => new,
    }
}
