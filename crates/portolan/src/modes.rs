//! The modes that are built, each behind the same two doors: one for doing, one for asking.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use portolan_dataplane::iptables::{self, Iptables, IptablesKernel};
use portolan_dataplane::ipvs::IpvsKernel;
use portolan_dataplane::nftables::{self, Nftables, NftablesKernel};
use portolan_dataplane::peers::Successor;
use portolan_dataplane::tables::{self, RuleTally, Variant};
use portolan_dataplane::traffic::{CountTraffic, Pair, Usage};
use portolan_dataplane::userspace::{self, Doors, Limits, Userspace, UserspaceKernel};
use portolan_dataplane::{Dataplane, Error, Objects, Observe, Program, Reconciler, SyncReport, render, verify};
use portolan_explain::{DifferenceAnswer, PacketAnswer, VerifyAnswer, difference, explain_packet, verify_answer};
use portolan_kernel::accounting::Accounting;
use portolan_plan::{Packet, Plan};

use crate::daemon::programmer::Trust;
use crate::flags::Mode;
use crate::ipvs::{self, IpvsChoices};

/// How a mode is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeSettings {
    pub(crate) mode: Mode,
    pub(crate) masquerade_bit: u8,
    pub(crate) traffic_counters: bool,
    /// How long a UDP client of userspace mode may be idle.
    pub(crate) udp_idle: Duration,
    pub(crate) ipvs: IpvsChoices,
}

/// A mode at work.
pub(crate) trait Worker: Send {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error>;

    /// The next sync reads the kernel and says everything in the new way.
    fn use_settings(&mut self, settings: ModeSettings);

    /// By this the kernel's notifications tell our own changes from those of others, where they can be told apart.
    fn port_id(&mut self) -> Option<u32>;

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error>;

    fn successor(&mut self) -> Successor;

    /// What was written by the programs of iptables, in numbers.
    fn rule_tally(&mut self) -> Option<RuleTally> {
        None
    }

    /// The listeners of a mode in which the daemon itself carries connections.
    fn doors(&mut self) -> Option<Arc<Doors>> {
        None
    }
}

pub(crate) fn open(settings: ModeSettings) -> Result<Box<dyn Worker>, Error> {
    Ok(match settings.mode {
        Mode::Nftables => Box::new(Reconciler::new(nftables(&settings), NftablesKernel::open()?)),
        Mode::Iptables => {
            let variant = variant()?;
            make_counters();
            Box::new(Reconciler::new(iptables(&settings), IptablesKernel::open(variant)?))
        }
        Mode::Ipvs => Box::new(ipvs::open(&settings, variant()?)?),
        Mode::Userspace => {
            let doors = Arc::new(Doors::open(Limits { udp_idle: settings.udp_idle, ..Limits::default() })?);
            Box::new(Reconciler::new(Userspace, UserspaceKernel::open(variant()?, doors)?))
        }
    })
}

impl Worker for Reconciler<Nftables, NftablesKernel> {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        sync(self, plan, trust)
    }

    fn use_settings(&mut self, settings: ModeSettings) {
        self.respell(nftables(&settings));
    }

    fn port_id(&mut self) -> Option<u32> {
        Some(self.kernel().port_id())
    }

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        self.kernel().forget_counts(pairs)
    }

    fn successor(&mut self) -> Successor {
        Successor::Nftables
    }
}

impl Worker for Reconciler<Iptables, IptablesKernel> {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        sync(self, plan, trust)
    }

    fn use_settings(&mut self, settings: ModeSettings) {
        self.respell(iptables(&settings));
    }

    /// The programs of iptables come and go, each as a sender of its own.
    fn port_id(&mut self) -> Option<u32> {
        None
    }

    /// Nothing is counted by Service in this mode.
    fn forget_counts(&mut self, _: &[(Pair, Usage)]) -> Result<(), Error> {
        Ok(())
    }

    fn successor(&mut self) -> Successor {
        Successor::Iptables(self.kernel().variant())
    }

    fn rule_tally(&mut self) -> Option<RuleTally> {
        Some(self.kernel().tally().clone())
    }
}

impl Worker for Reconciler<Userspace, UserspaceKernel> {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        sync(self, plan, trust)
    }

    fn use_settings(&mut self, _: ModeSettings) {
        self.respell(Userspace);
    }

    fn port_id(&mut self) -> Option<u32> {
        None
    }

    /// The relay counts for itself.
    fn forget_counts(&mut self, _: &[(Pair, Usage)]) -> Result<(), Error> {
        Ok(())
    }

    fn successor(&mut self) -> Successor {
        Successor::Userspace(self.kernel().variant())
    }

    fn rule_tally(&mut self) -> Option<RuleTally> {
        Some(self.kernel().tally().clone())
    }

    fn doors(&mut self) -> Option<Arc<Doors>> {
        Some(self.kernel().doors().clone())
    }
}

pub(crate) fn sync<D: Dataplane, K: Program<D>>(
    reconciler: &mut Reconciler<D, K>,
    plan: &Plan,
    trust: Trust,
) -> Result<SyncReport, Error> {
    let begin = Instant::now();
    let clock = move || begin.elapsed();
    match trust {
        Trust::OurMemory => reconciler.sync(plan, &clock),
        Trust::NobodyElseWrote => reconciler.sync_and_check(plan, &clock),
        Trust::Nothing => reconciler.sync_everything(plan, &clock),
    }
}

fn nftables(settings: &ModeSettings) -> Nftables {
    let mode = Nftables::new(settings.masquerade_bit);
    if settings.traffic_counters { mode } else { mode.without_traffic_counters() }
}

const BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";

fn iptables(settings: &ModeSettings) -> Iptables {
    let mode = Iptables::new(settings.masquerade_bit);
    let is_liberal = std::fs::read_to_string(BE_LIBERAL).is_ok_and(|value| value.trim() != "0");
    let mode = if is_liberal { mode.without_dropping_invalid() } else { mode };
    if has_counters() { mode.with_counters() } else { mode }
}

/// Rules can only name counters that are there. A kernel without any is as good.
fn make_counters() {
    let make = || -> portolan_kernel::Result<()> {
        let mut accounting = Accounting::open()?;
        iptables::COUNTERS.iter().try_for_each(|name| accounting.ensure(name).map(drop))
    };
    if let Err(error) = make() {
        tracing::warn!("{error}; the metrics of these counters are not served");
    }
}

fn has_counters() -> bool {
    let has = |accounting: &mut Accounting, name: &str| accounting.packets(name).is_ok_and(|count| count.is_some());
    Accounting::open().is_ok_and(|mut accounting| iptables::COUNTERS.iter().all(|name| has(&mut accounting, name)))
}

/// Chosen once in the life of the process: by the next look, our own rules would be among those that decide.
fn variant() -> Result<Variant, Error> {
    static CHOSEN: OnceLock<Variant> = OnceLock::new();
    if let Some(variant) = CHOSEN.get() {
        return Ok(*variant);
    }
    let choice = tables::choose()?;
    tracing::info!("using the {} variant of iptables: {}", choice.variant, choice.because);
    if choice.both_hold_rules {
        tracing::warn!(
            "both variants of iptables hold rules, and packets meet both: move all of them to one variant \
             (iptables-save of the one, iptables-restore of the other)"
        );
    }
    Ok(*CHOSEN.get_or_init(|| choice.variant))
}

/// A mode that is asked.
pub(crate) trait Spelling {
    /// What would be programmed, as the mode's own tools print it, and object by object.
    fn render(&self, plan: &Plan) -> (String, Vec<(String, String)>);
    fn explain_offline(&self, plan: &Plan, packet: &Packet) -> PacketAnswer;
    fn explain_kernel(&self, plan: &Plan, packet: &Packet) -> Result<PacketAnswer, Error>;
    fn verify(&self, plan: &Plan) -> Result<VerifyAnswer, Error>;
    fn difference(&self, before: &Plan, after: &Plan) -> DifferenceAnswer;
}

struct Spelled<D: Dataplane> {
    name: &'static str,
    dataplane: D,
    listing: fn(&Objects<D>) -> String,
    open: Open<D>,
}

type Open<D> = Box<dyn Fn() -> Result<Box<dyn Observe<D>>, Error>>;

/// Which port leads to which listener is known to the daemon that has opened them, and so to nobody else.
pub(crate) fn spelling(settings: ModeSettings, doors: Option<Arc<Doors>>) -> Box<dyn Spelling> {
    let name = settings.mode.name();
    match settings.mode {
        Mode::Nftables => Box::new(Spelled {
            name,
            dataplane: nftables(&settings),
            listing: nftables::listing,
            open: Box::new(|| Ok(Box::new(NftablesKernel::open()?))),
        }),
        Mode::Iptables => Box::new(Spelled {
            name,
            dataplane: iptables(&settings),
            listing: iptables::listing,
            open: Box::new(|| Ok(Box::new(IptablesKernel::open(variant()?)?))),
        }),
        Mode::Ipvs => Box::new(Spelled {
            name,
            dataplane: ipvs::offline(&settings),
            listing: portolan_dataplane::ipvs::listing,
            open: Box::new(|| Ok(Box::new(IpvsKernel::open(variant()?)?))),
        }),
        Mode::Userspace => Box::new(Spelled {
            name,
            dataplane: Userspace,
            listing: userspace::listing,
            open: Box::new(move || {
                let doors = doors.clone().ok_or_else(no_doors)?;
                Ok(Box::new(UserspaceKernel::open(variant()?, doors)?))
            }),
        }),
    }
}

fn no_doors() -> Error {
    Error::Program {
        attempted: "comparing rules of userspace mode with listeners".into(),
        reason: "only the running daemon knows which port leads where: ask it, without --manifests".into(),
    }
}

impl<D: Dataplane> Spelling for Spelled<D> {
    fn render(&self, plan: &Plan) -> (String, Vec<(String, String)>) {
        let objects = render(&self.dataplane, plan);
        let each = objects.0.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        ((self.listing)(&objects), each)
    }

    fn explain_offline(&self, plan: &Plan, packet: &Packet) -> PacketAnswer {
        let objects = render(&self.dataplane, plan);
        explain_packet(&self.dataplane, plan, &objects, "the objects that would be programmed", packet)
    }

    fn explain_kernel(&self, plan: &Plan, packet: &Packet) -> Result<PacketAnswer, Error> {
        let objects = (self.open)()?.read()?;
        Ok(explain_packet(&self.dataplane, plan, &objects, "the kernel's tables", packet))
    }

    fn verify(&self, plan: &Plan) -> Result<VerifyAnswer, Error> {
        let mending = verify(&self.dataplane, &mut *(self.open)()?, plan)?;
        Ok(verify_answer(self.name, render(&self.dataplane, plan).0.len(), &mending))
    }

    fn difference(&self, before: &Plan, after: &Plan) -> DifferenceAnswer {
        difference(&self.dataplane, before, after)
    }
}
