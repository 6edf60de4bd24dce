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
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;
use std::sync::Arc;

use portolan_kernel::nftables::{Element, Expression, Policy};
use portolan_model::Family;

pub(crate) use chain::chain_place;
pub use foreign::{Foreign, read_foreign};
pub use read::{ReadSets, read_table};
pub use sets::Set;

use crate::walk::{BaseChain, Branch, ChainKind, Hook, Met, Rules, Site, Verdict};

/// One table, ready to be run.
pub struct Table {
    /// Such as `table inet filter`.
    pub name: Arc<str>,
    /// The families whose packets it sees.
    pub families: &'static [Family],
    pub chains: HashMap<Arc<str>, Chain>,
    pub sets: HashMap<Arc<str>, Set>,
    pub on_error: OnError,
    /// Says what a lookup has found, where lookups are part of the path.
    pub describe: Option<DescribeLookup>,
}

/// Takes the name of the set, the family of the packet and the element that was found.
pub type DescribeLookup = fn(&str, Family, &Element) -> Option<Met>;

/// What becomes of a packet that meets a rule which cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Its fate is unknown.
    End,
    /// The rule is skipped, and the answer has a note about it. A later drop of the same base chain is not certain any more.
    Skip,
}

#[derive(Clone, Debug, Default)]
pub struct Chain {
    pub base: Option<Base>,
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
pub struct Base {
    pub hook: Hook,
    pub kind: ChainKind,
    pub priority: i32,
    pub policy: Policy,
}

#[derive(Clone, Debug)]
pub struct Rule {
    /// The number by which `nft -a` shows it.
    pub handle: Option<u64>,
    pub expressions: Vec<Expression>,
}

/// Something that the machine does not know, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// Tables that are run together.
#[derive(Default)]
pub struct Ruleset {
    pub tables: Vec<Table>,
}

impl Table {
    pub fn new(name: impl Into<Arc<str>>, families: &'static [Family], on_error: OnError) -> Self {
        let (chains, sets) = (HashMap::new(), HashMap::new());
        Self { name: name.into(), families, chains, sets, on_error, describe: None }
    }

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

    fn base_chains(&self, hook: Hook) -> impl Iterator<Item = BaseChain> {
        self.chains.iter().filter_map(move |(name, chain)| {
            let base = chain.base.as_ref().filter(|base| base.hook == hook)?;
            Some(BaseChain { table: self.name.clone(), name: name.clone(), kind: base.kind, priority: base.priority })
        })
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
