//! What the modes with these rules share besides them: settings, the watch of the table, and its counters.

use portolan_kernel::nftables::Monitor;
use portolan_plan::Plan;

use super::{Nftables, NftablesKernel, TABLE};
use crate::drift::{CommitWatch, ForeignChange};
use crate::mode::WatchForeignChanges;
use crate::traffic::{CountTraffic, Counts, ForgetCounts, Pair, ReadTraffic, Traffic, TrafficSample, Usage};
use crate::{Error, ModeSettings, Trust};

/// A command that damages the table.
pub(crate) const DAMAGE: &[&str] = &["nft", "delete", "table", "ip", "portolan"];

pub(crate) fn dataplane(settings: &ModeSettings) -> Nftables {
    let rules = Nftables::new(settings.masquerade_bit);
    if settings.traffic_counters { rules } else { rules.without_traffic_counters() }
}

/// Whether the rules are the same with both settings.
pub(crate) fn is_same(one: &ModeSettings, other: &ModeSettings) -> bool {
    let read = |settings: &ModeSettings| (settings.masquerade_bit, settings.traffic_counters);
    read(one) == read(other)
}

pub(crate) fn describe(settings: &ModeSettings) -> String {
    let ModeSettings { masquerade_bit, traffic_counters, .. } = settings;
    format!("masquerade_bit: {masquerade_bit}, traffic_counters: {traffic_counters}")
}

pub(crate) fn watch(kernel: &NftablesKernel) -> Result<Box<dyn WatchForeignChanges>, Error> {
    let monitor = Monitor::open(kernel.port_id())?;
    Ok(Box::new(TableWatch(CommitWatch::new(monitor, kernel.compared_state(), Trust::Nothing)?)))
}

pub(crate) fn traffic_reader() -> Result<Box<dyn ReadTraffic>, Error> {
    Ok(Box::new(Counters { traffic: Traffic::new(), kernel: NftablesKernel::open()? }))
}

/// The kernel's notifications about our table. Those of our own commits carry our port number.
struct TableWatch(CommitWatch);

impl WatchForeignChanges for TableWatch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        self.0.wait(&mut |notice| notice.table == TABLE, |family| format!("table {} {TABLE}", family.nft_name()))
    }
}

/// Reads the kernel's counters, and has idle ones deleted by the thread that syncs.
struct Counters {
    traffic: Traffic,
    kernel: NftablesKernel,
}

impl ReadTraffic for Counters {
    fn read(&mut self, plan: &Plan, forget: &mut ForgetCounts<'_>) -> Result<&TrafficSample, Error> {
        self.traffic.read(&mut ReadHere { kernel: &mut self.kernel, forget }, plan)
    }
}

struct ReadHere<'a, 'b> {
    kernel: &'a mut NftablesKernel,
    forget: &'a mut ForgetCounts<'b>,
}

impl CountTraffic for ReadHere<'_, '_> {
    fn read_counts(&mut self) -> Result<Counts, Error> {
        self.kernel.read_counts()
    }

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        (self.forget)(pairs)
    }
}
