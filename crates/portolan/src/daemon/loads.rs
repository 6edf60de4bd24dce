//! Open connections of each endpoint, for the metrics. A walk of a large connection table takes a second, so that the last
//! count is shown for a while.

use std::time::{Duration, Instant};

use portolan_dataplane::connections::Load;
use portolan_kernel::IS_LINUX;
use portolan_kernel::conntrack::Conntrack;
use portolan_plan::Plan;
use portolan_status::PortLoad;

const AT_MOST_EVERY: Duration = Duration::from_secs(10);
/// Counting takes at most this part of a processor.
const PART: u32 = 50;

pub(super) struct Loads {
    /// The time until the next count, by how long the last one took.
    pause: fn(Duration) -> Duration,
    conntrack: Option<Conntrack>,
    load: Load,
    /// When the load is counted again.
    again: Option<Instant>,
}

impl Default for Loads {
    fn default() -> Self {
        Self::paced(|took| AT_MOST_EVERY.max(took * PART))
    }
}

impl Loads {
    pub(super) fn paced(pause: fn(Duration) -> Duration) -> Self {
        Self { pause, conntrack: None, load: Load::default(), again: None }
    }

    /// The last count.
    pub(super) fn last(&self) -> &Load {
        &self.load
    }

    /// Counts again if that is due.
    pub(super) fn load(&mut self, plan: &Plan) -> &Load {
        let begin = Instant::now();
        // Elsewhere connections cannot be listed.
        if IS_LINUX && self.again.is_none_or(|again| again <= begin) {
            if let Err(error) = self.count(plan) {
                tracing::warn!("counting open connections: {error}; the previous values are shown");
            }
            self.again = Some(begin + (self.pause)(begin.elapsed()));
        }
        &self.load
    }

    /// Service ports without a connection are left out.
    pub(super) fn read(&mut self, plan: &Plan) -> Vec<PortLoad> {
        let load = self.load(plan);
        let ports = plan.services.values().map(|service| (service, load.of(service)));
        let busy = ports.filter(|(_, load)| load.endpoints.values().any(|open| *open > 0));
        busy.map(|(service, load)| PortLoad {
            port: service.key.clone(),
            imbalance: load.imbalance,
            open: load.endpoints.into_iter().collect(),
        })
        .collect()
    }

    fn count(&mut self, plan: &Plan) -> Result<(), portolan_dataplane::Error> {
        let mut conntrack = match self.conntrack.take() {
            Some(conntrack) => conntrack,
            None => Conntrack::open()?,
        };
        self.load = Load::read(&mut conntrack, plan)?;
        self.conntrack = Some(conntrack);
        Ok(())
    }
}
