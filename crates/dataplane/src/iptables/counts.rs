//! The counters of rules as traffic of Services. The rule that translates to an endpoint sees the first packet of each
//! connection alone, so that connections are counted, and neither packets nor bytes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use portolan_kernel::accounting::Accounting;
use portolan_model::Family;
use portolan_plan::{FrontendAddress, Plan, ServicePlan};

use super::{INVALID_DROPPED, LOOPBACK_ACCEPTED};
use crate::Error;
use crate::pace::Pace;
use crate::tables::names::endpoint_chain;
use crate::tables::{Variant, counted_rules};
use crate::traffic::{CountTraffic, Counts, ForgetCounts, Pair, ReadTraffic, Traffic, TrafficSample, Usage};

/// Reading all rules takes as long as there are Services, so that the last numbers are shown for a while.
pub(super) struct Counters {
    traffic: Traffic,
    pace: Pace,
    variant: Variant,
    families: Vec<Family>,
    /// `--traffic-counters`.
    counts_rules: bool,
}

impl Counters {
    pub(super) fn new(variant: Variant, families: Vec<Family>, counts_rules: bool) -> Self {
        Self { traffic: Traffic::new(), pace: Pace::default(), variant, families, counts_rules }
    }
}

impl ReadTraffic for Counters {
    fn read(&mut self, plan: &Plan, _: &mut ForgetCounts<'_>) -> Result<&TrafficSample, Error> {
        let begin = Instant::now();
        if self.counts_rules && self.pace.is_due(begin) {
            let mut rules = Rules { variant: self.variant, families: &self.families, plan };
            self.traffic.read(&mut rules, plan)?;
            self.pace.note(begin, begin.elapsed());
        }
        let mut accounting = Accounting::open()?;
        let sample = self.traffic.sample_mut();
        sample.invalid_dropped = accounting.packets(INVALID_DROPPED)?;
        sample.loopback_accepted = accounting.packets(LOOPBACK_ACCEPTED)?;
        Ok(self.traffic.sample())
    }
}

struct Rules<'a> {
    variant: Variant,
    /// Those that this node has.
    families: &'a [Family],
    plan: &'a Plan,
}

impl CountTraffic for Rules<'_> {
    fn read_counts(&mut self) -> Result<Counts, Error> {
        let mut counts = Counts { capacity: usize::MAX, ..Counts::default() };
        for family in self.families {
            let chains = endpoint_chains(self.plan, *family);
            if chains.is_empty() {
                continue;
            }
            counted_rules(self.variant, *family, |chain, packets, rule| {
                if let Some(pair) = chains.get(chain).filter(|_| rule.contains(TRANSLATES)) {
                    counts.pairs.entry(*pair).or_default().connections += packets;
                }
            })?;
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

const TRANSLATES: &str = "-j DNAT ";

/// The chains of all endpoints, each with its pair. The Service port has one chain for each endpoint, whatever the frontend:
/// its first frontend, the ClusterIP, stands for all.
fn endpoint_chains(plan: &Plan, family: Family) -> HashMap<Arc<str>, Pair> {
    let services = plan.services.values().filter(|service| service.key.family == family);
    let each = services.flat_map(|service| service.serving().map(move |endpoint| (service, endpoint.socket())));
    each.filter_map(|(service, endpoint)| Some((endpoint_chain(&service.key, endpoint), pair(service, endpoint)?)))
        .collect()
}

fn pair(service: &ServicePlan, endpoint: SocketAddr) -> Option<Pair> {
    let FrontendAddress::Vip(destination, port) = service.frontends.first()?.address else { return None };
    let protocol = service.protocol();
    Some(Pair { protocol, destination, port, endpoint: endpoint.ip(), endpoint_port: endpoint.port() })
}
