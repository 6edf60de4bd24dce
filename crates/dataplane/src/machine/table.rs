//! One table and its chains, as the machine runs them.

use std::collections::HashMap;
use std::sync::Arc;

use portolan_kernel::nftables::{Element, Expression, Policy};
use portolan_model::Family;

use super::sets::Set;
use crate::walk::{BaseChain, ChainKind, Hook, Met};

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

impl Table {
    pub fn new(name: impl Into<Arc<str>>, families: &'static [Family], on_error: OnError) -> Self {
        let (chains, sets) = (HashMap::new(), HashMap::new());
        Self { name: name.into(), families, chains, sets, on_error, describe: None }
    }

    pub(super) fn base_chains(&self, hook: Hook) -> impl Iterator<Item = BaseChain> {
        self.chains.iter().filter_map(move |(name, chain)| {
            let base = chain.base.as_ref().filter(|base| base.hook == hook)?;
            Some(BaseChain { table: self.name.clone(), name: name.clone(), kind: base.kind, priority: base.priority })
        })
    }
}
