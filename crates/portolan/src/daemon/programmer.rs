//! The kernel's side: a plan becomes rules, and what the kernel remembers of earlier plans is forgotten.

use std::time::{Duration, Instant};

use anyhow::Context;
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::traffic::{CountTraffic, Pair, Usage};
use portolan_dataplane::{Error, Reconciler, SyncReport, forget_all_stale_flows, forget_flows};
use portolan_kernel::conntrack::Conntrack;
use portolan_plan::Plan;

use crate::settings::Settings;

/// What a sync may believe about the kernel without reading all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trust {
    /// It holds what we wrote; somebody else's changes would have been notified.
    #[default]
    OurMemory,
    /// It holds what we wrote if its count of commits says that all of them were ours.
    NobodyElseWrote,
    Nothing,
}

pub(super) struct Programmer {
    reconciler: Reconciler<Nftables, NftablesKernel>,
    conntrack: Conntrack,
    /// The plan whose stale flows have been forgotten; `None` until all flows have been looked at once.
    flows_of: Option<Plan>,
}

/// How many flows were forgotten, and how long the search took.
pub(super) struct Forgotten {
    pub(super) flows: usize,
    pub(super) time: Duration,
}

impl Programmer {
    pub(super) fn open(settings: &Settings) -> anyhow::Result<Self> {
        let kernel = NftablesKernel::open().context("opening the kernel's tables")?;
        Ok(Self {
            reconciler: Reconciler::new(mode(settings), kernel),
            conntrack: Conntrack::open().context("opening the kernel's connection table")?,
            flows_of: None,
        })
    }

    /// The next sync reads the kernel and says everything in the new way.
    pub(super) fn use_settings(&mut self, settings: &Settings) {
        self.reconciler.respell(mode(settings));
    }

    /// By this the kernel's notifications tell our own changes from those of others.
    pub(super) fn port_id(&mut self) -> u32 {
        self.reconciler.kernel().port_id()
    }

    pub(super) fn sync(&mut self, plan: &Plan, trust: Trust) -> anyhow::Result<SyncReport> {
        let begin = Instant::now();
        let clock = move || begin.elapsed();
        Ok(match trust {
            Trust::OurMemory => self.reconciler.sync(plan, &clock)?,
            Trust::NobodyElseWrote => self.reconciler.sync_and_check(plan, &clock)?,
            Trust::Nothing => self.reconciler.sync_everything(plan, &clock)?,
        })
    }

    pub(super) fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        self.reconciler.kernel().forget_counts(pairs)
    }

    /// UDP flows that lead to what is gone would keep their clients from what is there now.
    pub(super) fn forget_flows(&mut self, plan: &Plan) -> anyhow::Result<Forgotten> {
        let begin = Instant::now();
        let flows = match &self.flows_of {
            Some(before) => forget_flows(&mut self.conntrack, before, plan)?,
            None => forget_all_stale_flows(&mut self.conntrack, plan)?,
        };
        self.flows_of = Some(plan.clone());
        Ok(Forgotten { flows, time: begin.elapsed() })
    }
}

/// The mode as it is configured.
pub(crate) fn mode(settings: &Settings) -> Nftables {
    let mode = Nftables::new(settings.masquerade_bit);
    if settings.traffic_counters { mode } else { mode.without_traffic_counters() }
}
