//! The kernel's side: a plan becomes rules, and what the kernel remembers of earlier plans is forgotten.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use portolan_dataplane::peers::Successor;
use portolan_dataplane::tables::RuleTally;
use portolan_dataplane::traffic::{Pair, Usage};
use portolan_dataplane::userspace::{Doors, NamedSocket};
use portolan_dataplane::{Error, SyncReport, forget_all_stale_flows, forget_flows};
use portolan_kernel::conntrack::Conntrack;
use portolan_plan::Plan;

use crate::modes::{self, ModeSettings, Worker};

/// What a sync may believe about the kernel without reading all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// It holds what we wrote; somebody else's changes would have been notified.
    #[default]
    OurMemory,
    /// It holds what we wrote if its count of commits says that all of them were ours.
    NobodyElseWrote,
    Nothing,
}

pub(super) struct Programmer {
    worker: Box<dyn Worker>,
    conntrack: Conntrack,
    /// The plan whose stale flows have been forgotten; `None` until all flows have been looked at once.
    flows_of: Option<Plan>,
    /// Listeners of modes that were left: open until nothing leads to them any more, and kept until their last
    /// connection has ended.
    retired: Vec<Arc<Doors>>,
}

/// How many flows were forgotten, and how long the search took.
pub(super) struct Forgotten {
    pub(super) flows: usize,
    pub(super) time: Duration,
}

impl Programmer {
    pub(super) fn open(settings: ModeSettings) -> anyhow::Result<Self> {
        Ok(Self {
            worker: modes::open(settings).context("opening the kernel's tables")?,
            conntrack: Conntrack::open().context("opening the kernel's connection table")?,
            flows_of: None,
            retired: Vec::new(),
        })
    }

    /// Goes on with the listeners of the process before this one. A mode without listeners has no use for them.
    pub(super) fn adopt(&mut self, sockets: Vec<NamedSocket>) -> anyhow::Result<()> {
        let Some(doors) = self.worker.doors() else { return Ok(()) };
        let count = doors.adopt(sockets).context("taking over listeners")?;
        if count > 0 {
            tracing::info!("took over {count} listeners");
        }
        Ok(())
    }

    /// The next sync reads the kernel and says everything in the new way.
    pub(super) fn use_settings(&mut self, settings: ModeSettings) {
        self.worker.use_settings(settings);
    }

    /// Another mode does the work from now on. What the old one has programmed stays until the new one has.
    pub(super) fn change_mode(&mut self, settings: ModeSettings) -> anyhow::Result<()> {
        let worker = modes::open(settings).context("opening the kernel's tables")?;
        self.retired.extend(self.worker.doors());
        self.worker = worker;
        self.flows_of = None;
        Ok(())
    }

    /// The rules of the mode before are gone.
    pub(super) fn close_retired(&mut self) -> Result<(), Error> {
        self.retired.iter().try_for_each(|doors| doors.close_all())?;
        self.retired.retain(|doors| doors.active() > 0);
        Ok(())
    }

    /// Connections that this process carries, in this mode and in those that were left.
    pub(super) fn carried(&mut self) -> usize {
        let doors = self.worker.doors();
        self.retired.iter().chain(&doors).map(|doors| doors.active()).sum()
    }

    pub(super) fn port_id(&mut self) -> Option<u32> {
        self.worker.port_id()
    }

    pub(super) fn successor(&mut self) -> Successor {
        self.worker.successor()
    }

    pub(super) fn rule_tally(&mut self) -> Option<RuleTally> {
        self.worker.rule_tally()
    }

    /// In userspace mode: the listeners of this process.
    pub(super) fn doors(&mut self) -> Option<Arc<Doors>> {
        self.worker.doors()
    }

    pub(super) fn sync(&mut self, plan: &Plan, trust: Trust) -> anyhow::Result<SyncReport> {
        Ok(self.worker.sync(plan, trust)?)
    }

    pub(super) fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        self.worker.forget_counts(pairs)
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
