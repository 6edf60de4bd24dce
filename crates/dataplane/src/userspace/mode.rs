//! userspace mode as the rest of the program sees it.

use std::sync::Arc;

use portolan_plan::{Limits, Plan};

use super::counts::RelayCounters;
use super::{Listeners, NAME, RelayLimits, Userspace, UserspaceKernel, chains, listing};
use crate::fake::FakeKernel;
use crate::mode::{ActiveMode, Mode, ModeView, Synchronize, WatchForeignChanges, synchronize_by_reconciler};
use crate::place::Owned;
use crate::requirements::{self, Feature};
use crate::tables::{self, RuleTally};
use crate::traffic::ReadTraffic;
use crate::view::View;
use crate::{Error, ModeSettings, Reconciler};

const FEATURES: &[Feature] = &[requirements::NETLINK, requirements::NAT_OF_BOTH];

pub static MODE: UserspaceMode = UserspaceMode;

pub struct UserspaceMode;

/// kube-proxy's flag for the idle time of UDP clients.
const UDP_TIMEOUT: &str = "udp-timeout";
/// The fields of kube-proxy's file after which connection tracking forgets connections in the other modes.
const TCP_IDLE_TIMEOUT: &str = "conntrack.tcpEstablishedTimeout";
const TCP_HALF_CLOSED_TIMEOUT: &str = "conntrack.tcpCloseWaitTimeout";

impl Mode for UserspaceMode {
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
        Limits { relayed: true, ..Limits::default() }
    }

    fn describe(&self, settings: &ModeSettings) -> String {
        let RelayLimits { udp_idle, tcp_idle, tcp_half_closed, .. } = relay_limits(settings);
        format!("udp_idle: {udp_idle:?}, tcp_idle: {tcp_idle:?}, tcp_half_closed: {tcp_half_closed:?}")
    }

    fn open(&self, settings: &ModeSettings) -> Result<Box<dyn ActiveMode>, Error> {
        let listeners = Arc::new(Listeners::open(relay_limits(settings))?);
        let kernel = UserspaceKernel::open(tables::variant_of(settings)?, listeners)?;
        Ok(Box::new(ActiveUserspace { reconciler: Reconciler::new(Userspace, kernel) }))
    }

    fn view(&self, settings: &ModeSettings, listeners: Option<Arc<Listeners>>) -> Box<dyn ModeView> {
        let named = settings.clone();
        let open = Box::new(move || {
            let listeners = listeners.clone().ok_or_else(no_listeners)?;
            Ok(Box::new(UserspaceKernel::open(tables::variant_of(&named)?, listeners)?) as _)
        });
        Box::new(View { dataplane: Userspace, listing, open })
    }

    fn damage(&self) -> &'static [&'static str] {
        &[tables::PLAIN_PROGRAM, "-t", "nat", "-F", "KUBE-PORTALS-CONTAINER"]
    }

    fn in_memory(&self, _: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize> {
        Box::new(Reconciler::new(Userspace, FakeKernel::failing(fails_one_in, seed)))
    }
}

fn relay_limits(settings: &ModeSettings) -> RelayLimits {
    let standard = RelayLimits::default();
    let configured = |name, standard| settings.options.duration(name).unwrap_or(standard);
    RelayLimits {
        udp_idle: configured(UDP_TIMEOUT, standard.udp_idle),
        tcp_idle: configured(TCP_IDLE_TIMEOUT, standard.tcp_idle),
        tcp_half_closed: configured(TCP_HALF_CLOSED_TIMEOUT, standard.tcp_half_closed),
        ..standard
    }
}

fn no_listeners() -> Error {
    Error::Program {
        attempted: "comparing the rules of userspace mode with its listeners".into(),
        reason: "only the running daemon knows the port of each listener: run the command without --manifests".into(),
    }
}

struct ActiveUserspace {
    reconciler: Reconciler<Userspace, UserspaceKernel>,
}

synchronize_by_reconciler!(ActiveUserspace);

impl ActiveMode for ActiveUserspace {
    /// No setting changes the rules. Idle times apply from the next start.
    fn use_settings(&mut self, _: &ModeSettings) -> Result<(), Error> {
        Ok(())
    }

    fn owned(&self) -> Owned {
        Owned::with_chains(NAME, self.reconciler.kernel().variant(), chains::layout())
    }

    fn watch(&mut self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        self.reconciler.kernel().watch()
    }

    fn traffic_reader(&self) -> Result<Box<dyn ReadTraffic>, Error> {
        let listeners = self.reconciler.kernel().listeners().clone();
        Ok(Box::new(RelayCounters::new(listeners)))
    }

    fn rule_tally(&self) -> Option<RuleTally> {
        Some(self.reconciler.kernel().tally().clone())
    }

    fn listeners(&self) -> Option<Arc<Listeners>> {
        Some(self.reconciler.kernel().listeners().clone())
    }
}
