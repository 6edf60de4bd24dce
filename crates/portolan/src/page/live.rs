//! What streams send: everything that is new after a change, and the rates.

use std::collections::BTreeSet;

use portolan_explain::{ChangeKind, ChangesAnswer};
use portolan_page::{LiveAnswer, Rates};
use portolan_plan::PortKey;

use super::world::World;
use crate::daemon::traffic::read_with;

/// Changes in one event; a page that is further behind reads everything again.
const MOST_CHANGES: usize = 200;
const MOST_ROWS: usize = 500;

impl World<'_> {
    pub(super) fn live(&self, after: Option<u64>, reading: u64, services: &[String]) -> anyhow::Result<LiveAnswer> {
        let newest = self.history()?.newest();
        let changes = match after {
            Some(after) => self.history()?.after(after, MOST_CHANGES),
            None => ChangesAnswer { newest, is_complete: true, ..ChangesAnswer::default() },
        };
        let names: BTreeSet<String> = changes.changes.iter().flat_map(|change| change.services.clone()).collect();
        let reload = !changes.is_complete || names.len() > MOST_ROWS || changes.changes.iter().any(concerns_all);
        let unknown = |_: &PortKey, _| None;
        let (rows, removed) = match reload {
            true => Default::default(),
            false => self.known(&unknown)?.rows_of(names),
        };
        let rates = self.rates(reading, services);
        Ok(LiveAnswer { overview: self.overview()?, changes, rows, removed, reload, rates })
    }

    /// Those of the last two readings, if they are not known; a new reading is made when it is due.
    fn rates(&self, known: u64, services: &[String]) -> Option<Rates> {
        let (published, live) = self.daemon.as_ref()?;
        let mut meter = live.meter().ok()?;
        if let Some(reading) = meter.begin(services) {
            let read = read_with(published, live.events(), |sample| reading.of(sample));
            match read {
                Ok(totals) => meter.finish(totals),
                Err(error) => tracing::debug!("reading counters for the page: {error:#}"),
            }
        }
        meter.rates_after(known)
    }
}

fn concerns_all(change: &portolan_explain::ChangeEntry) -> bool {
    change.more_services > 0 || matches!(change.kind, ChangeKind::Start | ChangeKind::Settings)
}
