//! Notes what each sync changed, and why. Without a change it does nothing, and its cost follows the change.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portolan_dataplane::SyncReport;
use portolan_dataplane::mode::ForeignChange;
use portolan_explain::{Cause, ChangeEntry, ChangeKind, Drift, Effects};
use portolan_plan::Plan;

use super::history::History;

#[derive(Default)]
pub(crate) struct Recorder {
    history: Arc<Mutex<History>>,
    /// The plan of the last sync that succeeded.
    plan: Option<Plan>,
    /// When the first event since then arrived.
    since: Option<Instant>,
    /// What is known about the next change beside the facts.
    drift: Option<Drift>,
    settings: Option<Cause>,
}

impl Recorder {
    pub(crate) fn history(&self) -> Arc<Mutex<History>> {
        self.history.clone()
    }

    /// Something happened that the next sync is about.
    pub(crate) fn note_event(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The first of several foreign changes is the one that is reported.
    pub(crate) fn note_drift(&mut self, change: &ForeignChange) {
        let process = change.process().map(str::to_owned);
        self.drift.get_or_insert_with(|| Drift { what: change.to_string(), process, repaired: 0 });
    }

    pub(crate) fn note_settings(&mut self, file: Option<&Path>) {
        let name = file.map_or(String::new(), |file| file.display().to_string());
        self.settings = Some(Cause::new("Configuration", name, "changed"));
    }

    /// The kernel holds the plan.
    pub(crate) fn note_sync(&mut self, plan: &Plan, report: &SyncReport, arrival: Option<Instant>) {
        let since = arrival.into_iter().chain(self.since.take()).min();
        let entry = self.entry(plan, report);
        self.plan = Some(plan.clone());
        let mut history = self.history.lock().expect("no thread panics while it reads the history");
        if report.failure.is_none() {
            history.succeed();
        }
        if let Some(entry) = entry {
            let latency_ms = since.map(|since| milliseconds(since.elapsed()));
            history.add(ChangeEntry { latency_ms, ..complete(entry, report) });
        }
    }

    fn entry(&mut self, plan: &Plan, report: &SyncReport) -> Option<ChangeEntry> {
        let (drift, settings) = (self.drift.take(), self.settings.take());
        let Some(before) = &self.plan else {
            let cause = Cause::new("Service", "", format!("{} Service ports at the start", plan.services.len()));
            return Some(ChangeEntry { kind: ChangeKind::Start, causes: vec![cause], ..ChangeEntry::default() });
        };
        let effects = Effects::between(before, plan);
        let repaired = repaired(drift, report);
        if effects.is_empty() && repaired.is_none() && settings.is_none() {
            return None;
        }
        let kind = match (&repaired, &settings) {
            (Some(_), _) => ChangeKind::Repair,
            (None, Some(_)) => ChangeKind::Settings,
            (None, None) => ChangeKind::Change,
        };
        let mut entry = ChangeEntry { kind, drift: repaired, ..effects.into_entry() };
        entry.causes.splice(0..0, settings);
        Some(entry)
    }

    /// The kernel could not be programmed. The same failure again is no news.
    pub(crate) fn note_failure(&mut self, error: &str) {
        let mut history = self.history.lock().expect("no thread panics while it reads the history");
        if history.fail(error) {
            let causes = vec![Cause::new("Kernel", "", error)];
            let failure = ChangeEntry { kind: ChangeKind::Failure, causes, unix_ms: now(), ..ChangeEntry::default() };
            history.add(failure);
        }
    }
}

/// A foreign change that left nothing to repair is no change.
fn repaired(drift: Option<Drift>, report: &SyncReport) -> Option<Drift> {
    let unnoticed = || Drift { what: "objects were not as they were written".into(), ..Drift::default() };
    let drift = (report.repaired > 0).then(|| drift.unwrap_or_else(unnoticed))?;
    Some(Drift { repaired: report.repaired, ..drift })
}

fn complete(entry: ChangeEntry, report: &SyncReport) -> ChangeEntry {
    ChangeEntry { unix_ms: now(), objects: report.objects, kernel_ms: milliseconds(report.kernel_time), ..entry }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
