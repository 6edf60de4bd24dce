//! ipvs mode at work: the machine prepared for it, and connections of endpoints that are gone let go.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use portolan_dataplane::ipvs::{Ipvs, IpvsKernel, IpvsSettings, prepare, schedulers};
use portolan_dataplane::peers::Successor;
use portolan_dataplane::tables::{RuleTally, Variant};
use portolan_dataplane::traffic::{Pair, Usage};
use portolan_dataplane::{Error, Reconciler, SyncReport};
use portolan_plan::Plan;

use crate::daemon::programmer::Trust;
use crate::modes::{self, ModeSettings, Worker};

/// What can be configured about this mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpvsChoices {
    pub scheduler: String,
    pub machine: IpvsSettings,
    /// Virtual servers in these ranges are left alone.
    pub excluded: Vec<IpNet>,
    /// How long an endpoint that is gone keeps its connections; `None` means for as long as they last.
    pub drain_timeout: Option<Duration>,
}

/// Prepares the machine and finds out which schedulers it has.
pub(crate) fn open(settings: &ModeSettings, variant: Variant) -> Result<Working, Error> {
    let mode = online(settings)?;
    let IpvsChoices { excluded, drain_timeout, .. } = settings.ipvs.clone();
    let kernel = IpvsKernel::open(variant)?.with_limits(excluded, drain_timeout);
    Ok(Working { reconciler: Reconciler::new(mode, kernel), told: BTreeSet::new() })
}

/// Without a kernel to ask, every scheduler is taken for one that there is.
pub(crate) fn offline(settings: &ModeSettings) -> Ipvs {
    Ipvs::new(settings.masquerade_bit, &settings.ipvs.scheduler)
}

fn online(settings: &ModeSettings) -> Result<Ipvs, Error> {
    prepare(&settings.ipvs.machine)?;
    Ok(offline(settings).offering(schedulers(&settings.ipvs.scheduler)?))
}

pub(crate) struct Working {
    reconciler: Reconciler<Ipvs, IpvsKernel>,
    /// Warnings that were given, so that each is given once.
    told: BTreeSet<String>,
}

impl Working {
    fn tell_unknown_schedulers(&mut self, plan: &Plan) {
        let unknown: BTreeSet<String> = self.reconciler.dataplane().unknown_schedulers(plan).into_iter().collect();
        unknown.difference(&self.told).for_each(|unknown| tracing::warn!("{unknown}: it is not used"));
        self.told = unknown;
    }
}

impl Worker for Working {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        let report = modes::sync(&mut self.reconciler, plan, trust)?;
        self.reconciler.kernel().tend(Instant::now())?;
        // Looking at all Services is for times when all are looked at anyway.
        if report.full {
            self.tell_unknown_schedulers(plan);
        }
        Ok(report)
    }

    /// A scheduler that the kernel does not have changes nothing.
    fn use_settings(&mut self, settings: ModeSettings) {
        match online(&settings) {
            Ok(mode) => {
                let IpvsChoices { excluded, drain_timeout, .. } = settings.ipvs;
                self.reconciler.kernel().set_limits(excluded, drain_timeout);
                self.reconciler.respell(mode);
            }
            Err(error) => tracing::error!("the new settings of ipvs mode are not used: {error}"),
        }
    }

    /// IPVS tells nobody of its changes.
    fn port_id(&mut self) -> Option<u32> {
        None
    }

    /// Nothing is counted by Service in this mode.
    fn forget_counts(&mut self, _: &[(Pair, Usage)]) -> Result<(), Error> {
        Ok(())
    }

    fn successor(&mut self) -> Successor {
        Successor::Ipvs(self.reconciler.kernel().variant())
    }

    fn rule_tally(&mut self) -> Option<RuleTally> {
        Some(self.reconciler.kernel().tally().clone())
    }
}
