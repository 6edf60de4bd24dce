//! What the daemon keeps for pages.

use std::sync::mpsc::SyncSender;
use std::sync::{LockResult, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use portolan_page::{RefusalAnswer, Size};
use portolan_plan::Plan;

use super::meter::Meter;
use crate::daemon::events::Event;

pub(crate) struct Live {
    pub(super) started_unix_ms: u64,
    events: SyncSender<Event>,
    meter: Mutex<Meter>,
    /// As of a change.
    size: Mutex<Option<(u64, Size)>>,
}

impl Live {
    pub(crate) fn new(events: SyncSender<Event>) -> Self {
        Self { started_unix_ms: now(), events, meter: Mutex::default(), size: Mutex::default() }
    }

    pub(super) fn meter(&self) -> LockResult<MutexGuard<'_, Meter>> {
        self.meter.lock()
    }

    pub(super) fn events(&self) -> &SyncSender<Event> {
        &self.events
    }

    pub(super) fn size(&self, change: u64, plan: &Plan) -> Size {
        let Ok(mut known) = self.size.lock() else { return Size::of(plan) };
        match *known {
            Some((of, size)) if of == change => size,
            _ => known.insert((change, Size::of(plan))).1,
        }
    }

    pub(super) fn refusals(&self) -> (Vec<RefusalAnswer>, bool) {
        self.meter.lock().map(|meter| meter.refusals()).unwrap_or_default()
    }

    /// Forgets the last reading if no page has asked for a while.
    pub(crate) fn rest(&self) {
        if let Ok(mut meter) = self.meter.lock() {
            meter.rest();
        }
    }
}

pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
