//! nftables mode as the rest of the program sees it.

use std::sync::Arc;

use portolan_kernel::nftables::Monitor;
use portolan_plan::Plan;

use super::leftovers::ProxyTable;
use super::{NAME, Nftables, NftablesKernel, TABLE, listing, requirements};
use crate::drift::{CommitWatch, ForeignChange};
use crate::fake::FakeKernel;
use crate::mode::{ActiveMode, Mode, ModeView, Synchronize, WatchForeignChanges, synchronize_by_reconciler};
use crate::place::{Owned, Place};
use crate::requirements::Feature;
use crate::traffic::{CountTraffic, Counts, ForgetCounts, Pair, ReadTraffic, Traffic, TrafficSample, Usage};
use crate::view::View;
use crate::{Error, Listeners, ModeSettings, Reconciler};

pub static MODE: NftablesMode = NftablesMode;

pub struct NftablesMode;

impl Mode for NftablesMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn missing(&self) -> Option<String> {
        requirements::refused()
    }

    fn features(&self) -> &'static [Feature] {
        requirements::FEATURES
    }

    fn describe(&self, settings: &ModeSettings) -> String {
        let ModeSettings { masquerade_bit, traffic_counters, .. } = settings;
        format!("masquerade_bit: {masquerade_bit}, traffic_counters: {traffic_counters}")
    }

    fn open(&self, settings: &ModeSettings) -> Result<Box<dyn ActiveMode>, Error> {
        let reconciler = Reconciler::new(dataplane(settings), NftablesKernel::open()?.with_quick_start());
        Ok(Box::new(ActiveNftables { reconciler, settings: settings.clone() }))
    }

    fn view(&self, settings: &ModeSettings, _: Option<Arc<Listeners>>) -> Box<dyn ModeView> {
        let open = Box::new(|| Ok(Box::new(NftablesKernel::open()?) as _));
        Box::new(View { dataplane: dataplane(settings), listing, open })
    }

    fn damage(&self) -> &'static [&'static str] {
        &["nft", "delete", "table", "ip", "portolan"]
    }

    fn in_memory(&self, settings: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize> {
        Box::new(Reconciler::new(dataplane(settings), FakeKernel::failing(fails_one_in, seed)))
    }

    fn places(&self) -> Vec<Box<dyn Place>> {
        ProxyTable::places()
    }
}

fn dataplane(settings: &ModeSettings) -> Nftables {
    let mode = Nftables::new(settings.masquerade_bit);
    if settings.traffic_counters { mode } else { mode.without_traffic_counters() }
}

struct ActiveNftables {
    reconciler: Reconciler<Nftables, NftablesKernel>,
    settings: ModeSettings,
}

synchronize_by_reconciler!(ActiveNftables);

impl ActiveMode for ActiveNftables {
    fn use_settings(&mut self, settings: &ModeSettings) -> Result<(), Error> {
        let read = |settings: &ModeSettings| (settings.masquerade_bit, settings.traffic_counters);
        if read(settings) != read(&self.settings) {
            self.reconciler.use_dataplane(dataplane(settings));
            self.settings = settings.clone();
        }
        Ok(())
    }

    fn owned(&self) -> Owned {
        Owned::by(NAME)
    }

    fn watch(&mut self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        let kernel = self.reconciler.kernel();
        Ok(Box::new(TableWatch(CommitWatch::new(Monitor::open(kernel.port_id())?, kernel.compared_state())?)))
    }

    fn traffic_reader(&self) -> Result<Box<dyn ReadTraffic>, Error> {
        Ok(Box::new(Counters { traffic: Traffic::new(), kernel: NftablesKernel::open()? }))
    }

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        self.reconciler.kernel_mut().forget_counts(pairs)
    }
}

/// The kernel's notifications about our table. Those of our own commits carry our port number.
struct TableWatch(CommitWatch);

impl WatchForeignChanges for TableWatch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        self.0.wait(&|notice| notice.table == TABLE, |family| format!("table {} {TABLE}", family.nft_name()))
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
