//! nftables mode as the rest of the program sees it.

use std::sync::Arc;

use portolan_plan::{Lacks, Limits, Plan};

use super::NAME;
use super::leftovers::ProxyTable;
use crate::fake::FakeKernel;
use crate::mode::{ActiveMode, Mode, ModeView, Synchronize, WatchForeignChanges, synchronize_by_reconciler};
use crate::nft::{self, Nftables, NftablesKernel, dataplane, listing, requirements};
use crate::place::{Owned, Place};
use crate::requirements::Feature;
use crate::traffic::{CountTraffic, Pair, ReadTraffic, Usage};
use crate::view::View;
use crate::{Error, Listeners, ModeSettings, Reconciler};

pub static MODE: NftablesMode = NftablesMode;

pub struct NftablesMode;

impl Mode for NftablesMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tool(&self) -> Option<&'static str> {
        Some("nft list ruleset")
    }

    fn missing(&self) -> Option<String> {
        requirements::refused()
    }

    fn features(&self) -> &'static [Feature] {
        requirements::FEATURES
    }

    fn limits_with(&self, _: &ModeSettings) -> Limits {
        Limits { lacks: Lacks(requirements::lacks), ..self.limits() }
    }

    fn describe(&self, settings: &ModeSettings) -> String {
        nft::describe(settings)
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
        nft::DAMAGE
    }

    fn in_memory(&self, settings: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize> {
        Box::new(Reconciler::new(dataplane(settings), FakeKernel::failing(fails_one_in, seed)))
    }

    fn places(&self) -> Vec<Box<dyn Place>> {
        ProxyTable::places()
    }
}

struct ActiveNftables {
    reconciler: Reconciler<Nftables, NftablesKernel>,
    settings: ModeSettings,
}

synchronize_by_reconciler!(ActiveNftables);

impl ActiveMode for ActiveNftables {
    fn use_settings(&mut self, settings: &ModeSettings) -> Result<(), Error> {
        if !nft::is_same(settings, &self.settings) {
            self.reconciler.use_dataplane(dataplane(settings));
            self.settings = settings.clone();
        }
        Ok(())
    }

    fn owned(&self) -> Owned {
        Owned::with_table(NAME)
    }

    fn watch(&mut self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        nft::watch(self.reconciler.kernel())
    }

    fn traffic_reader(&self) -> Result<Box<dyn ReadTraffic>, Error> {
        nft::traffic_reader()
    }

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        self.reconciler.kernel_mut().forget_counts(pairs)
    }
}
