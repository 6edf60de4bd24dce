//! Foreign changes of the tables of iptables: notifications of nf_tables, or the sizes of the legacy tables.

use std::thread;

use portolan_kernel::legacy_tables;
use portolan_kernel::nftables::{Monitor, Notice};
use portolan_model::Family;

use super::noted::NotedChains;
use super::objects::{Key, Place, Table};
use super::processes::is_own_process;
use super::{Contents, Layout};
use crate::drift::{
    CommitWatch, ComparedState, CountWatch, Counts, ForeignChange, Ledger, WATCH_INTERVAL, WatchForeignChanges,
};
use crate::{Error, Trust};

/// Watches rules that are kept in nf_tables.
pub(super) struct NftWatch {
    commits: CommitWatch,
    layout: Layout,
    noted: NotedChains,
}

impl NftWatch {
    pub(super) fn open(layout: Layout, compared: ComparedState, noted: NotedChains) -> Result<Self, Error> {
        let commits = CommitWatch::new(Monitor::open_for_all()?, compared, Trust::Notified)?;
        Ok(Self { commits, layout, noted })
    }
}

impl WatchForeignChanges for NftWatch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        let Self { commits, layout, noted } = self;
        let mut is_wanted = |notice: &Notice<'_>| {
            let place = concerned(layout, notice).filter(|_| !is_own_process(notice.port));
            place.map(|place| noted.add(place)).is_some()
        };
        commits.wait(&mut is_wanted, |family| format!("the tables of family {}", family.nft_name()))
    }
}

/// The chain that has changed, if it is ours or has jumps to ours. Rules of other programs in the same tables change often, and
/// are not ours to compare.
fn concerned(layout: &Layout, notice: &Notice<'_>) -> Option<Place> {
    let (table, chain) = (Table::from_name(notice.table)?, notice.chain?);
    let is_ours = layout.owns(table, chain) || notice.target.is_some_and(|target| layout.is_jump_target(table, target));
    is_ours.then(|| Place::new(notice.family, table, chain))
}

/// Watches the legacy tables.
pub(super) struct LegacyWatch(CountWatch<fn() -> Result<Counts, Error>>);

impl LegacyWatch {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self(CountWatch::new(ledger, legacy_counts))
    }
}

impl WatchForeignChanges for LegacyWatch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        thread::sleep(WATCH_INTERVAL);
        self.0.check()
    }
}

/// The sizes of the legacy tables.
pub(super) fn legacy_counts() -> Result<Counts, Error> {
    let mut counts = Counts::new();
    for family in Family::BOTH {
        for table in Table::ALL {
            let entries = legacy_tables::entries(family, table.name())?;
            counts.insert(counted(family, table), entries.into());
        }
    }
    Ok(counts)
}

/// By how much a change of objects changes those sizes.
pub(super) fn size_changes(removed: &Contents, added: &Contents) -> Vec<(String, i64)> {
    let signed = |objects: &Contents, sign: i64| -> Vec<(String, i64)> {
        objects.iter().map(|(key, value)| (counted_key(key), sign * entries(key, value.as_rules().len()))).collect()
    };
    [signed(removed, -1), signed(added, 1)].concat()
}

/// The kernel keeps two entries for the beginning and the end of a chain, and one for each rule.
fn entries(key: &Key, rules: usize) -> i64 {
    let own = match key {
        Key::Chain(_) | Key::List(_) => 2,
        Key::Rule(..) | Key::Jump(..) => 1,
    };
    own + i64::try_from(rules).unwrap_or(i64::MAX)
}

fn counted_key(key: &Key) -> String {
    counted(key.place().family, key.place().table)
}

fn counted(family: Family, table: Table) -> String {
    format!("the legacy table {} {}", family.nft_name(), table.name())
}
