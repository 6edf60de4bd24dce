//! The answers for `portolan top`: counters and open connections, read when asked and at a bounded cost.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use portolan_dataplane::traffic::TrafficSample;
use portolan_explain::top::{TopAnswer, TopBook, TopQuestion, endpoints};
use portolan_plan::Plan;

use super::events::Event;
use super::loads::Loads;
use super::traffic::forget;
use crate::control::{AnswerTop, Published, SharedReader};

/// Several readers share a reading, and a reader that asks every second always finds a new one.
const AT_MOST_EVERY: Duration = Duration::from_millis(900);
/// A reading that takes long is repeated less often, but a screen must stay live.
const PART: u32 = 10;
const AT_LEAST_EVERY: Duration = Duration::from_secs(3);
/// Without a question for so long, the readings are forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// What the daemon publishes, at the time of a question.
struct Current {
    plan: Plan,
    reader: Option<SharedReader>,
    node: String,
    mode: &'static str,
}

pub(crate) struct Top {
    published: Arc<Mutex<Published>>,
    events: SyncSender<Event>,
    start: Instant,
    readings: Mutex<Option<Readings>>,
}

struct Readings {
    book: TopBook,
    loads: Loads,
    /// The counters of the row whose endpoints were asked for, and its name.
    detail: (String, TrafficSample),
    refusals: Vec<(String, u64)>,
    notes: Vec<String>,
    at: Instant,
    /// When the counters are read again.
    again: Instant,
    asked: Instant,
}

impl Top {
    pub(crate) fn new(published: Arc<Mutex<Published>>, events: SyncSender<Event>) -> Arc<Self> {
        Arc::new(Self { published, events, start: Instant::now(), readings: Mutex::default() })
    }

    /// For the control socket.
    pub(crate) fn answerer(self: &Arc<Self>) -> AnswerTop {
        let top = self.clone();
        Arc::new(move |question| top.answer(question))
    }

    /// Frees the memory of readings that are not asked for any more.
    pub(crate) fn rest(&self) {
        let mut readings = self.readings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if readings.as_ref().is_some_and(|readings| readings.asked.elapsed() > IDLE) {
            *readings = None;
        }
    }

    fn answer(&self, question: &TopQuestion) -> anyhow::Result<TopAnswer> {
        let current = self.current()?;
        let mut readings = self.readings.lock().map_err(|_| anyhow!("an earlier reading has failed"))?;
        let readings = readings.get_or_insert_with(|| Readings::new(Instant::now()));
        readings.asked = Instant::now();
        let service = question.service.as_deref().unwrap_or_default();
        if readings.again <= readings.asked || readings.detail.0 != service {
            readings.read(&current, service, &self.events)?;
        }
        Ok(TopAnswer {
            node: current.node.clone(),
            mode: current.mode.to_owned(),
            at: readings.at.duration_since(self.start).as_millis() as u64,
            refusals: readings.refusals.clone(),
            endpoints: readings.endpoints(&current.plan),
            notes: readings.notes.clone(),
            ..readings.book.answer(question.since)
        })
    }

    fn current(&self) -> anyhow::Result<Current> {
        let published = self.published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
        let plan = published.plan.clone().context("nothing is programmed yet: see the daemon's log")?;
        let node = plan.facts().node.name.to_string();
        let mode = published.settings.traffic.mode.name();
        Ok(Current { plan, reader: published.traffic_reader.clone(), node, mode })
    }
}

impl Readings {
    fn new(now: Instant) -> Self {
        let number = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        Self {
            book: TopBook::new(number),
            loads: Loads::paced(pause),
            detail: Default::default(),
            refusals: Vec::new(),
            notes: Vec::new(),
            at: now,
            again: now,
            asked: now,
        }
    }

    fn read(&mut self, current: &Current, service: &str, events: &SyncSender<Event>) -> anyhow::Result<()> {
        self.at = Instant::now();
        match &current.reader {
            None => self.take(current, service, &TrafficSample::default()),
            Some(reader) => {
                let mut reader = reader.lock().map_err(|_| anyhow!("an earlier reading has failed"))?;
                let sample = reader.read(&current.plan, &mut |pairs| forget(events, pairs));
                self.take(current, service, sample.context("reading the kernel's counters")?);
            }
        }
        self.again = self.at + pause(self.at.elapsed());
        Ok(())
    }

    fn take(&mut self, current: &Current, service: &str, sample: &TrafficSample) {
        let load = self.loads.load(&current.plan);
        self.book.follow(&current.plan, sample, load);
        self.detail = (service.to_owned(), self.only(sample, service));
        self.refusals = refusals(sample);
        self.notes = notes(current.reader.is_some(), sample);
    }

    /// The counters of one row.
    fn only(&self, sample: &TrafficSample, service: &str) -> TrafficSample {
        let Some(name) = self.book.port(service) else { return TrafficSample::default() };
        let ports = sample.services.iter().filter(|(key, _)| *key.name == *name);
        let services = ports.map(|(key, traffic)| (key.clone(), traffic.clone())).collect();
        TrafficSample { services, ..TrafficSample::default() }
    }

    fn endpoints(&mut self, plan: &Plan) -> Option<Vec<portolan_explain::top::TopEndpoint>> {
        let (service, sample) = &self.detail;
        let name = self.book.port(service)?;
        Some(endpoints(plan, name, sample, self.loads.last()))
    }
}

fn pause(took: Duration) -> Duration {
    AT_MOST_EVERY.max((took * PART).min(AT_LEAST_EVERY))
}

/// Both families together.
fn refusals(sample: &TrafficSample) -> Vec<(String, u64)> {
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for ((_, refusal), count) in &sample.refusals {
        *sums.entry(refusal.reason().to_string()).or_default() += count.packets;
    }
    sums.into_iter().collect()
}

fn notes(is_counted: bool, sample: &TrafficSample) -> Vec<String> {
    let off = (!is_counted).then(|| "no connections and bytes: --traffic-counters=false".to_owned());
    let full = sample.is_full.then(|| "the kernel has no room for more counters: some traffic is missing".to_owned());
    off.into_iter().chain(full).collect()
}
