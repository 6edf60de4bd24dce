//! Chains of service proxies in the tables of iptables: found and removed without touching foreign rules.
//!
//! Chains of the nf_tables variant are read and deleted by netlink. Legacy chains need the legacy programs.

mod chains;
mod legacy;
mod netfilter;

use std::collections::BTreeSet;
use std::fmt;

use chains::{Removal, Table};
use portolan_kernel::nftables::Nftables;
use portolan_model::Family;

use super::{Layout, Variant};
use crate::place::{Connections, Found, Outcome, Owned, Place, RemovalError, Report, Users};

/// The chains of one variant and address family. kube-proxy has them in its iptables, ipvs and userspace modes, and so
/// do the modes of the same names here.
pub(crate) struct ServiceChains {
    pub(crate) mode: &'static str,
    pub(crate) variant: Variant,
    pub(crate) family: Family,
}

impl ServiceChains {
    /// The chains of both variants and families, as places of the given mode.
    pub(crate) fn places(mode: &'static str) -> Vec<Box<dyn Place>> {
        let each = Variant::BOTH.into_iter().flat_map(|variant| Family::BOTH.map(|family| (variant, family)));
        each.map(|(variant, family)| Box::new(Self { mode, variant, family }) as Box<dyn Place>).collect()
    }

    fn owned_layout<'a>(&self, owned: Option<&'a Owned>) -> Option<&'a Layout> {
        let (variant, layout) = owned?.chains.as_ref()?;
        (*variant == self.variant).then_some(layout)
    }

    fn nft_tables(&self, handle: &mut Nftables) -> Outcome<Vec<Table<u64>>> {
        netfilter::tables(handle, self.family).map_err(|error| RemovalError::new(format!("reading {self}"), error))
    }
}

impl fmt::Display for ServiceChains {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = if self.variant == Variant::Legacy { "legacy " } else { "" };
        write!(formatter, "{variant}iptables chains for {}", self.family)
    }
}

impl Place for ServiceChains {
    fn mode(&self) -> &'static str {
        self.mode
    }

    fn users(&self) -> Users {
        Users::Both
    }

    fn find(&self, owned: Option<&Owned>) -> Outcome<Option<Found>> {
        let layout = self.owned_layout(owned);
        Ok(match self.variant {
            Variant::Nft => found(&sparing(layout, self.nft_tables(&mut open()?)?)),
            Variant::Legacy => found(&sparing(layout, legacy::tables(self.family)?)),
        })
    }

    fn is_ours(&self) -> Outcome<bool> {
        Ok(match self.variant {
            Variant::Nft => self.nft_tables(&mut open()?)?.iter().any(Table::is_ours),
            Variant::Legacy => legacy::tables(self.family)?.iter().any(Table::is_ours),
        })
    }

    fn remove(&self, owned: Option<&Owned>, _: Connections, report: &mut Report) -> Outcome<()> {
        let layout = self.owned_layout(owned);
        match self.variant {
            Variant::Nft => {
                let mut handle = open()?;
                let removals = removals(&sparing(layout, self.nft_tables(&mut handle)?));
                netfilter::remove_chains(&mut handle, self.family, &removals)
                    .map_err(|error| RemovalError::new(format!("removing {self}"), error))?;
                self.note(&removals, report);
            }
            Variant::Legacy => {
                let removals = removals(&sparing(layout, legacy::tables(self.family)?));
                legacy::remove_chains(self.family, &removals)?;
                self.note(&removals, report);
            }
        }
        Ok(())
    }

    fn serves(&self, family: Family) -> bool {
        self.family == family
    }

    fn variant(&self) -> Option<Variant> {
        Some(self.variant)
    }
}

impl ServiceChains {
    fn note<Id>(&self, removals: &[Removal<Id>], report: &mut Report) {
        let chains: usize = removals.iter().map(|removal| removal.chains.len()).sum();
        let jumps: usize = removals.iter().map(|removal| removal.jumps.len()).sum();
        if chains + jumps > 0 {
            report.removed.push(format!("{self}: {chains} chains and {jumps} rules that lead to them"));
        }
        for removal in removals {
            let table = &removal.table;
            let kept = removal.kept.iter();
            report
                .kept
                .extend(kept.map(|(chain, user)| format!("chain {chain} of {self}, table {table}: used by {user}")));
        }
    }
}

fn open() -> Outcome<Nftables> {
    Nftables::open().map_err(|error| RemovalError::new("opening netlink", error))
}

/// Chains of the active mode stay, whichever proxy created them.
fn sparing<Id>(layout: Option<&Layout>, mut tables: Vec<Table<Id>>) -> Vec<Table<Id>> {
    if let Some(layout) = layout {
        tables.iter_mut().for_each(|table| table.spared = spared(layout, table));
    }
    tables
}

fn spared<Id>(layout: &Layout, table: &Table<Id>) -> BTreeSet<String> {
    let Some(name) = super::Table::from_name(&table.name) else { return BTreeSet::new() };
    table.chains.iter().filter(|chain| layout.owns(name, chain)).cloned().collect()
}

/// Chains that stay because foreign rules use them do not count: a takeover would never end.
fn found<Id: Clone>(tables: &[Table<Id>]) -> Option<Found> {
    let removals = tables.iter().map(Table::removal);
    let objects = removals.map(|removal| removal.chains.len() + removal.jumps.len()).sum();
    Found::new(objects, tables.iter().any(Table::has_services))
}

fn removals<Id: Clone>(tables: &[Table<Id>]) -> Vec<Removal<Id>> {
    tables.iter().map(Table::removal).filter(|removal| !removal.is_empty() || !removal.kept.is_empty()).collect()
}
