//! ipvs mode as the rest of the program sees it: it prepares the machine, and drains destinations that are gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_kernel::ipvs::{Ipvs as Balancer, Timeouts};
use portolan_model::{Algorithm, IpNet};
use portolan_plan::{Lacks, Limits, Plan};

use super::counts::Counters;
use super::leftovers::VirtualServers;
use super::{DEVICE, Ipvs, IpvsKernel, IpvsSettings, NAME, chains, listing, prepare, schedulers};
use crate::fake::FakeKernel;
use crate::mode::{ActiveMode, Mode, ModeView, Synchronize, WatchForeignChanges};
use crate::place::{Owned, Place};
use crate::requirements::{self, Feature};
use crate::tables::{self, RuleTally};
use crate::traffic::ReadTraffic;
use crate::view::View;
use crate::{Difference, Error, FlagKind, Listeners, ModeFlag, ModeSettings, Options, Reconciler, SyncReport, Trust};

const FEATURES: &[Feature] = &[
    requirements::NETLINK,
    requirements::NAT_OF_BOTH,
    Feature {
        since: (5, 9),
        what: "reuse of a client's port without a delay",
        without: Some("a connection from a port that was used before may reach an endpoint that was removed"),
    },
];

pub static MODE: IpvsMode = IpvsMode;

pub struct IpvsMode;

const DRAIN_TIMEOUT: &str = "ipvs-drain-timeout";

impl Mode for IpvsMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn features(&self) -> &'static [Feature] {
        FEATURES
    }

    fn missing(&self) -> Option<String> {
        let has_ipvs = Balancer::open().is_ok_and(|balancer| balancer.is_some());
        let no_ipvs = (!has_ipvs).then(|| "this kernel has no IPVS (module ip_vs)".to_owned());
        no_ipvs.or_else(tables::missing_programs)
    }

    fn kernel_modules(&self) -> &'static [&'static str] {
        &["ip_vs", "dummy"]
    }

    fn limits(&self) -> Limits {
        Limits { virtual_servers: true, lacks: Lacks(|| &[Algorithm::Random]), ..Limits::default() }
    }

    fn flags(&self) -> &'static [ModeFlag] {
        &[ModeFlag {
            name: DRAIN_TIMEOUT,
            help: "In ipvs mode: how long an endpoint that is gone keeps its open connections; 0s means without limit",
            default: "0s",
            kind: FlagKind::Duration,
        }]
    }

    fn describe(&self, settings: &ModeSettings) -> String {
        format!("{:?}", OwnSettings::of(settings))
    }

    fn devices(&self) -> &'static [&'static str] {
        &[DEVICE]
    }

    /// Prepares the machine and finds the schedulers that it has.
    fn open(&self, settings: &ModeSettings) -> Result<Box<dyn ActiveMode>, Error> {
        let own = OwnSettings::of(settings);
        let kernel =
            IpvsKernel::open(tables::variant_of(settings)?)?.with_limits(own.excluded.clone(), own.drain_timeout);
        let reconciler = Reconciler::new(own.prepared()?, kernel);
        Ok(Box::new(ActiveIpvs { reconciler, settings: own, missing_schedulers: BTreeSet::new() }))
    }

    fn view(&self, settings: &ModeSettings, _: Option<Arc<Listeners>>) -> Box<dyn ModeView> {
        let named = settings.clone();
        let open = Box::new(move || Ok(Box::new(IpvsKernel::open(tables::variant_of(&named)?)?) as _));
        Box::new(View { dataplane: OwnSettings::of(settings).dataplane(), listing, open })
    }

    fn damage(&self) -> &'static [&'static str] {
        &["ipvsadm", "--clear"]
    }

    fn in_memory(&self, settings: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize> {
        let dataplane = OwnSettings::of(settings).dataplane();
        Box::new(Reconciler::new(dataplane, FakeKernel::failing(fails_one_in, seed)))
    }

    fn places(&self) -> Vec<Box<dyn Place>> {
        vec![Box::new(VirtualServers)]
    }
}

/// The settings of this mode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnSettings {
    masquerade_bit: u8,
    /// From the next start of the mode on.
    counts_traffic: bool,
    scheduler: String,
    machine: IpvsSettings,
    /// Virtual servers in these ranges are never deleted.
    excluded: Vec<IpNet>,
    /// How long an endpoint that is gone keeps its connections; `None` means without limit.
    drain_timeout: Option<Duration>,
}

impl OwnSettings {
    fn of(settings: &ModeSettings) -> Self {
        let options = &settings.options;
        Self {
            masquerade_bit: settings.masquerade_bit,
            counts_traffic: settings.traffic_counters,
            scheduler: options.text("ipvs.scheduler").to_owned(),
            machine: IpvsSettings { strict_arp: options.boolean("ipvs.strictARP"), timeouts: timeouts(options) },
            excluded: options.list("ipvs.excludeCIDRs").iter().filter_map(|text| text.parse().ok()).collect(),
            drain_timeout: options.duration(DRAIN_TIMEOUT).filter(|time| !time.is_zero()),
        }
    }

    /// Until the kernel is queried, every scheduler counts as available.
    fn dataplane(&self) -> Ipvs {
        Ipvs::new(self.masquerade_bit, &self.scheduler)
    }

    /// Fails if the kernel does not have the scheduler.
    fn prepared(&self) -> Result<Ipvs, Error> {
        prepare(&self.machine)?;
        Ok(self.dataplane().offering(schedulers(&self.scheduler)?))
    }
}

fn timeouts(options: &Options) -> Timeouts {
    let seconds = |name: &str| u32::try_from(options.duration(name).unwrap_or_default().as_secs()).unwrap_or(u32::MAX);
    Timeouts {
        tcp: seconds("ipvs.tcpTimeout"),
        tcp_fin: seconds("ipvs.tcpFinTimeout"),
        udp: seconds("ipvs.udpTimeout"),
    }
}

struct ActiveIpvs {
    reconciler: Reconciler<Ipvs, IpvsKernel>,
    settings: OwnSettings,
    /// Warnings already logged.
    missing_schedulers: BTreeSet<String>,
}

impl ActiveIpvs {
    fn warn_of_missing_schedulers(&mut self, plan: &Plan) {
        let missing: BTreeSet<String> = self.reconciler.dataplane().missing_schedulers(plan).into_iter().collect();
        missing.difference(&self.missing_schedulers).for_each(|warning| tracing::warn!("{warning}"));
        self.missing_schedulers = missing;
    }
}

impl Synchronize for ActiveIpvs {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        let report = self.reconciler.sync(plan, trust)?;
        self.reconciler.kernel_mut().reap(Instant::now())?;
        // A full sync reads all Services anyway.
        if report.full {
            self.warn_of_missing_schedulers(plan);
        }
        Ok(report)
    }

    fn verify(&mut self, plan: &Plan) -> Result<Difference, Error> {
        self.reconciler.verify(plan)
    }
}

impl ActiveMode for ActiveIpvs {
    fn use_settings(&mut self, settings: &ModeSettings) -> Result<(), Error> {
        let own = OwnSettings::of(settings);
        if own != self.settings {
            let dataplane = own.prepared()?;
            self.reconciler.kernel_mut().set_limits(own.excluded.clone(), own.drain_timeout);
            self.reconciler.use_dataplane(dataplane);
            self.settings = own;
        }
        Ok(())
    }

    fn owned(&self) -> Owned {
        Owned::with_chains(NAME, self.reconciler.kernel().variant(), chains::layout())
    }

    fn watch(&mut self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        self.reconciler.kernel().watch()
    }

    fn traffic_reader(&self) -> Result<Box<dyn ReadTraffic>, Error> {
        Ok(Box::new(Counters::new(self.settings.counts_traffic)))
    }

    fn rule_tally(&self) -> Option<RuleTally> {
        Some(self.reconciler.kernel().tally().clone())
    }
}
