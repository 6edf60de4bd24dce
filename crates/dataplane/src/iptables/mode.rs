//! iptables mode as the rest of the program sees it.

use std::sync::Arc;

use portolan_kernel::accounting::Accounting;
use portolan_model::{Algorithm, Family};
use portolan_plan::{Lacks, Limits, Plan};

use super::counts::Counters;
use super::{COUNTERS, Iptables, IptablesKernel, NAME, chains, listing};
use crate::fake::FakeKernel;
use crate::mode::{ActiveMode, Mode, ModeView, Synchronize, WatchForeignChanges};
use crate::place::{Owned, Place, RemovalError, Report};
use crate::requirements::{self, Feature};
use crate::tables::{self, RuleTally, ServiceChains};
use crate::traffic::ReadTraffic;
use crate::view::View;
use crate::{Difference, Error, Listeners, ModeSettings, Observe, Reconciler, SyncReport, Trust};

const FEATURES: &[Feature] = &[requirements::NETLINK, requirements::NAT_OF_BOTH];

pub static MODE: IptablesMode = IptablesMode;

pub struct IptablesMode;

impl Mode for IptablesMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn features(&self) -> &'static [Feature] {
        FEATURES
    }

    fn missing(&self) -> Option<String> {
        tables::missing_programs()
    }

    fn limits(&self) -> Limits {
        Limits { lacks: Lacks(|| &[Algorithm::SourceHash, Algorithm::Maglev]), ..Limits::default() }
    }

    /// The cost of a write grows with the number of rules: the kernel validates all chains.
    fn batches_changes(&self) -> bool {
        true
    }

    fn open(&self, settings: &ModeSettings) -> Result<Box<dyn ActiveMode>, Error> {
        let variant = tables::variant_of(settings)?;
        create_counters();
        let reconciler = Reconciler::new(dataplane(settings, Machine::look()), IptablesKernel::open(variant)?);
        Ok(Box::new(ActiveIptables { reconciler, settings: settings.clone(), machine: Machine::look() }))
    }

    fn view(&self, settings: &ModeSettings, _: Option<Arc<Listeners>>) -> Box<dyn ModeView> {
        let named = settings.clone();
        let open = Box::new(move || Ok(Box::new(IptablesKernel::open(tables::variant_of(&named)?)?) as _));
        Box::new(View { dataplane: dataplane(settings, Machine::look()), listing, open })
    }

    fn damage(&self) -> &'static [&'static str] {
        &[tables::PLAIN_PROGRAM, "-t", "nat", "-F", "KUBE-SERVICES"]
    }

    fn in_memory(&self, settings: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize> {
        Box::new(Reconciler::new(dataplane(settings, Machine::look()), FakeKernel::failing(fails_one_in, seed)))
    }

    /// The chains of all modes that keep rules in these tables.
    fn places(&self) -> Vec<Box<dyn Place>> {
        ServiceChains::places(NAME)
    }

    fn remove_extras(&self, report: &mut Report) {
        match remove_counters() {
            Ok(0) => {}
            Ok(count) => report.removed.push(format!("{count} counters of packets")),
            Err(error) => report.failed.push(RemovalError::new("removing counters of packets", error)),
        }
    }
}

/// What the rules depend on besides the settings.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Machine {
    is_liberal: bool,
    has_counters: bool,
}

const BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";

impl Machine {
    fn look() -> Self {
        let is_liberal = std::fs::read_to_string(BE_LIBERAL).is_ok_and(|value| value.trim() != "0");
        Self { is_liberal, has_counters: has_counters() }
    }
}

fn dataplane(settings: &ModeSettings, machine: Machine) -> Iptables {
    let mode = Iptables::new(settings.masquerade_bit);
    let mode = if machine.is_liberal { mode.without_dropping_invalid() } else { mode };
    if machine.has_counters { mode.with_counters() } else { mode }
}

/// A rule can only name counters that exist. The mode also works on a kernel without nfacct.
fn create_counters() {
    let create = || -> portolan_kernel::Result<()> {
        let mut accounting = Accounting::open()?;
        COUNTERS.iter().try_for_each(|name| accounting.ensure(name).map(drop))
    };
    if let Err(error) = create() {
        tracing::warn!("{error}; the metrics of these counters are not served");
    }
}

fn has_counters() -> bool {
    let has = |accounting: &mut Accounting, name: &str| accounting.packets(name).is_ok_and(|count| count.is_some());
    Accounting::open().is_ok_and(|mut accounting| COUNTERS.iter().all(|name| has(&mut accounting, name)))
}

/// Deletes counters that no rule refers to any more.
fn remove_counters() -> portolan_kernel::Result<usize> {
    let mut accounting = Accounting::open()?;
    let removed: portolan_kernel::Result<Vec<bool>> = COUNTERS.iter().map(|name| accounting.delete(name)).collect();
    Ok(removed?.into_iter().filter(|removed| *removed).count())
}

struct ActiveIptables {
    reconciler: Reconciler<Iptables, IptablesKernel>,
    settings: ModeSettings,
    machine: Machine,
}

impl ActiveIptables {
    /// Counters are part of what is repaired: rules that name a missing one are refused. Where they cannot be created, the
    /// rules go without them. Returns whether another attempt makes sense.
    fn repair_counters(&mut self) -> bool {
        let is_missing = self.machine.has_counters && !has_counters();
        if is_missing {
            create_counters();
        }
        let machine = Machine::look();
        if machine != self.machine {
            self.reconciler.use_dataplane(dataplane(&self.settings, machine));
            self.machine = machine;
        }
        is_missing
    }
}

impl Synchronize for ActiveIptables {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        let first = self.reconciler.sync(plan, trust);
        if first.as_ref().is_ok_and(|report| report.failure.is_none()) || !self.repair_counters() {
            return first;
        }
        let second = self.reconciler.sync(plan, Trust::Nothing)?;
        // If one family succeeded, the changes belong to the first attempt.
        Ok(first.map_or(second.clone(), |first| SyncReport { changes: first.changes, ..second }))
    }

    fn verify(&mut self, plan: &Plan) -> Result<Difference, Error> {
        self.reconciler.verify(plan)
    }
}

impl ActiveMode for ActiveIptables {
    fn use_settings(&mut self, settings: &ModeSettings) -> Result<(), Error> {
        let machine = Machine::look();
        if (settings.masquerade_bit, machine) != (self.settings.masquerade_bit, self.machine) {
            self.reconciler.use_dataplane(dataplane(settings, machine));
            (self.settings, self.machine) = (settings.clone(), machine);
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
        let kernel = self.reconciler.kernel();
        let families = Family::BOTH.into_iter().filter(|family| kernel.serves(*family)).collect();
        Ok(Box::new(Counters::new(kernel.variant(), families, self.settings.traffic_counters)))
    }

    fn rule_tally(&self) -> Option<RuleTally> {
        Some(self.reconciler.kernel().tally().clone())
    }
}
