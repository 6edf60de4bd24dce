//! The statistics of virtual servers as traffic of Services.

use std::time::Instant;

use portolan_kernel::ipvs::{DestinationUsage, Ipvs as Balancer, ServerAddress};
use portolan_model::Protocol;
use portolan_plan::Plan;

use crate::Error;
use crate::pace::Pace;
use crate::traffic::{CountTraffic, Counts, ForgetCounts, Pair, ReadTraffic, Traffic, TrafficSample, Usage};

/// A request for each virtual server: with many of them, the last numbers are shown for a while.
#[derive(Default)]
pub(super) struct Counters {
    traffic: Traffic,
    pace: Pace,
    /// `--traffic-counters=false`.
    is_off: bool,
}

impl Counters {
    pub(super) fn new(counts: bool) -> Self {
        Self { is_off: !counts, ..Self::default() }
    }
}

impl ReadTraffic for Counters {
    fn read(&mut self, plan: &Plan, _: &mut ForgetCounts<'_>) -> Result<&TrafficSample, Error> {
        let begin = Instant::now();
        if !self.is_off && self.pace.is_due(begin) {
            self.traffic.read(&mut Servers { plan }, plan)?;
            self.pace.note(begin, begin.elapsed());
        }
        Ok(self.traffic.sample())
    }
}

struct Servers<'a> {
    plan: &'a Plan,
}

impl CountTraffic for Servers<'_> {
    fn read_counts(&mut self) -> Result<Counts, Error> {
        let mut counts = Counts { capacity: usize::MAX, ..Counts::default() };
        let Some(mut balancer) = Balancer::open()? else { return Ok(counts) };
        for (server, _) in balancer.servers()? {
            let Some(protocol) = protocol_of(server, self.plan) else { continue };
            let usages = balancer.usage(server)?;
            counts.pairs.extend(usages.into_iter().map(|(endpoint, it)| {
                let (destination, port) = (server.address.ip(), server.address.port());
                let (address, endpoint_port) = (endpoint.ip(), endpoint.port());
                (Pair { protocol, destination, port, endpoint: address, endpoint_port }, usage(&it))
            }));
        }
        Ok(counts)
    }

    fn forget_counts(&mut self, _: &[(Pair, Usage)]) -> Result<(), Error> {
        Ok(())
    }

    fn outlive_endpoints(&self) -> bool {
        false
    }
}

/// `None` for the virtual server of another program.
fn protocol_of(server: ServerAddress, plan: &Plan) -> Option<Protocol> {
    let protocol = Protocol::from_number(server.protocol)?;
    plan.holder(server.address.ip(), server.address.port(), protocol).map(|_| protocol)
}

fn usage(usage: &DestinationUsage) -> Usage {
    Usage { connections: usage.connections, requests: usage.received, replies: usage.sent }
}
