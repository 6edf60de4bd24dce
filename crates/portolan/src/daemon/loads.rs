//! Open connections of each endpoint, for the metrics. A walk of a large connection table takes a second, so that the last
//! count is shown for a while.

use std::time::{Duration, Instant};

use portolan_dataplane::connections::Load;
use portolan_kernel::conntrack::Conntrack;
use portolan_plan::Plan;
use portolan_status::PortLoad;

const AT_MOST_EVERY: Duration = Duration::from_secs(10);
/// Counting takes at most this part of a processor.
const PART: u32 = 50;

#[derive(Default)]
pub(super) struct Loads {
    conntrack: Option<Conntrack>,
    load: Load,
    /// When the load is counted again.
    again: Option<Instant>,
}

impl Loads {
    /// Service ports without a connection are left out.
    pub(super) fn read(&mut self, plan: &Plan) -> Vec<PortLoad> {
        let begin = Instant::now();
        if self.again.is_none_or(|again| again <= begin) {
            if let Err(error) = self.count(plan) {
                tracing::warn!("counting open connections: {error}; /metrics shows the previous values");
            }
            self.again = Some(begin + AT_MOST_EVERY.max(begin.elapsed() * PART));
        }
        let ports = plan.services.values().map(|service| (service, self.load.of(service)));
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
