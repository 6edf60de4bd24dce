//! Runs nf_tables rules on a packet in memory.
//!
//! The machine knows expressions, registers and lookups, and nothing of what the rules are for. It is strict: an
//! expression, an offset or a set that it does not know is an error, never a guess. nftables mode runs its own objects by
//! it, shadow runs kube-proxy's tables, and `explain` runs the tables of all other programs.

mod chain;
mod foreign;
mod load;
mod read;
mod registers;
mod rule;
mod sets;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use portolan_model::Family;

pub(crate) use chain::chain_place;
pub use foreign::{Foreign, read_foreign};
pub use read::{ReadSets, read_table};
pub use sets::Set;
pub use table::{Base, Chain, DescribeLookup, OnError, Rule, Table, Unsupported};

use crate::walk::{BaseChain, Branch, Hook, Rules, Site, Verdict};

/// Tables that are run together.
#[derive(Default)]
pub struct Ruleset {
    pub tables: Vec<Table>,
}

impl Table {
    /// Expressions that cannot be run, whatever the packet, each with its chain.
    pub fn unsupported(&self) -> Vec<String> {
        let of_chain = |(name, chain): (&Arc<str>, &Chain)| {
            let expressions = chain.rules.iter().flat_map(|rule| &rule.expressions);
            let unknown = expressions.filter_map(|it| rule::unsupported(it).err());
            unknown.map(|Unsupported(what)| format!("{what} in chain {name}")).collect::<Vec<_>>()
        };
        let mut all: Vec<String> = self.chains.iter().flat_map(of_chain).collect();
        all.sort();
        all
    }
}

impl Rules for Ruleset {
    fn base_chains(&self, hook: Hook, family: Family) -> Vec<BaseChain> {
        let tables = self.tables.iter().filter(|table| table.families.contains(&family));
        let mut chains: Vec<BaseChain> = tables.flat_map(|table| table.base_chains(hook)).collect();
        chains.sort_by(|one, other| (&one.table, &one.name).cmp(&(&other.table, &other.name)));
        chains
    }

    fn run(&self, chain: &BaseChain, site: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)> {
        match self.tables.iter().find(|table| table.name == chain.table) {
            Some(table) => chain::run_base(table, &chain.name, site, branch),
            None => vec![(branch, Verdict::Continue)],
        }
    }
}
