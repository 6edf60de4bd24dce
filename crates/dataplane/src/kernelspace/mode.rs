//! kernelspace mode as the rest of the program sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_hns::{Habits, Hns, Version, connect};
use portolan_model::Algorithm;
use portolan_plan::{Lacks, Limits, Plan};

use super::abilities::Abilities;
use super::failures::Failures;
use super::kernel::HnsKernel;
use super::places::HnsObjects;
use super::settings::Settings;
use super::sync::counted;
use super::watch::Watch;
use super::{InMemory, Kernelspace, NAME, listing, network};
use crate::mode::{ActiveMode, BalancerFailure, Mode, ModeView, Synchronize, WatchForeignChanges};
use crate::place::{Owned, Place};
use crate::requirements::Feature;
use crate::traffic::{ForgetCounts, ReadTraffic, TrafficSample};
use crate::view::View;
use crate::{Difference, Error, Listeners, ModeSettings, Reconciler, SyncReport, Trust};

/// HNS hashes connections, or clients, and nothing else.
const LACKS: &[Algorithm] = &[Algorithm::RoundRobin, Algorithm::LeastConnections, Algorithm::Maglev];

pub static MODE: KernelspaceMode = KernelspaceMode;

pub struct KernelspaceMode;

impl Mode for KernelspaceMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn system(&self) -> &'static str {
        "windows"
    }

    /// Linux has none of it.
    fn features(&self) -> &'static [Feature] {
        &[]
    }

    fn missing(&self) -> Option<String> {
        connect().err().map(|error| format!("this mode is for Windows nodes only: {error}"))
    }

    fn limits(&self) -> Limits {
        self.limits_with(&ModeSettings::default())
    }

    fn limits_with(&self, settings: &ModeSettings) -> Limits {
        Settings::read(settings).limits(Limits { lacks: Lacks(|| LACKS), ..Limits::default() })
    }

    fn describe(&self, settings: &ModeSettings) -> String {
        Settings::read(settings).describe()
    }

    fn open(&self, settings: &ModeSettings) -> Result<Box<dyn ActiveMode>, Error> {
        let (mut hns, settings) = opened(settings)?;
        let version = hns.version()?;
        Abilities::of(version).warnings(version).iter().for_each(|warning| tracing::warn!("{warning}"));
        let kernel = HnsKernel::new(hns, settings.clone());
        let reconciler = Reconciler::new(Kernelspace { settings }, kernel);
        Ok(Box::new(ActiveKernelspace { reconciler, failures: Failures::default() }))
    }

    fn view(&self, settings: &ModeSettings, _: Option<Arc<Listeners>>) -> Box<dyn ModeView> {
        let (named, settings) = (settings.clone(), Settings::read(settings));
        let open = Box::new(move || {
            let (hns, settings) = opened(&named)?;
            Ok(Box::new(HnsKernel::new(hns, settings)) as _)
        });
        Box::new(View { dataplane: Kernelspace { settings }, listing, open })
    }

    fn in_memory(&self, settings: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize> {
        let habits =
            Habits { lacks_modification: seed % 3 == 1, ignores_identities: seed % 5 == 1, ..Habits::default() };
        Box::new(InMemory::new(Settings::read(settings), habits, fails_one_in, seed))
    }

    fn places(&self) -> Vec<Box<dyn Place>> {
        vec![Box::new(HnsObjects)]
    }

    fn damage(&self) -> &'static [&'static str] {
        &["hnsdiag.exe", "delete", "loadbalancers", "all"]
    }
}

/// The service, and the settings with what kind of network there is. A network that does not exist yet is waited for.
fn opened(settings: &ModeSettings) -> Result<(Box<dyn Hns>, Settings), Error> {
    let mut settings = Settings::of_process(settings);
    let mut hns = connect()?;
    let version = hns.version()?;
    let refused = |reason: &str| Error::Program { attempted: "opening kernelspace mode".into(), reason: reason.into() };
    if version < Version::OLDEST {
        return Err(refused(
            "HNS is older than 9.2, and has no API of version 2: Windows Server 2019 or later is needed",
        ));
    }
    if settings.direct_return && !version.returns_directly() {
        return Err(refused("this HNS has no direct server return: set winkernel.enableDSR to false"));
    }
    if settings.network.is_empty() {
        return Err(network::missing("").into());
    }
    settings.abilities = Abilities::of(version);
    settings.is_overlay = hns.network(&settings.network)?.is_some_and(|network| network.is_overlay());
    if settings.is_overlay && settings.source_vip.is_none() {
        return Err(network::lacks_source().into());
    }
    Ok((hns, settings))
}

struct ActiveKernelspace {
    reconciler: Reconciler<Kernelspace, HnsKernel>,
    failures: Failures,
}

impl Synchronize for ActiveKernelspace {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        counted(&mut self.reconciler, &mut self.failures, plan, trust)
    }

    fn verify(&mut self, plan: &Plan) -> Result<Difference, Error> {
        self.reconciler.kernel_mut().note_node(&plan.node);
        Synchronize::verify(&mut self.reconciler, plan)
    }
}

impl ActiveMode for ActiveKernelspace {
    fn use_settings(&mut self, settings: &ModeSettings) -> Result<(), Error> {
        let (hns, settings) = opened(settings)?;
        *self.reconciler.kernel_mut() = HnsKernel::new(hns, settings.clone());
        self.reconciler.use_dataplane(Kernelspace { settings });
        Ok(())
    }

    fn owned(&self) -> Owned {
        Owned::by(NAME)
    }

    fn watch(&mut self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        Ok(Box::new(Watch::new(connect()?, self.reconciler.kernel().known.clone())))
    }

    fn balancer_failures(&self) -> BTreeMap<BalancerFailure, u64> {
        self.failures.0.clone()
    }

    fn traffic_reader(&self) -> Result<Box<dyn ReadTraffic>, Error> {
        Ok(Box::new(NoCounters::default()))
    }
}

/// HNS counts nothing by load balancer.
#[derive(Default)]
struct NoCounters(TrafficSample);

impl ReadTraffic for NoCounters {
    fn read(&mut self, _: &Plan, _: &mut ForgetCounts<'_>) -> Result<&TrafficSample, Error> {
        Ok(&self.0)
    }
}
