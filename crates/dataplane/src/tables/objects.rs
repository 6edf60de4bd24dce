//! The kernel objects of this mode: whole chains, single rules in chains that all Services share, and jumps from the
//! built-in chains.

use std::fmt;
use std::sync::Arc;

use portolan_model::Family;

use super::rule::Rule;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Mangle,
    Filter,
    Nat,
}

impl Table {
    pub const ALL: [Self; 3] = [Self::Mangle, Self::Filter, Self::Nat];

    pub fn name(self) -> &'static str {
        match self {
            Self::Mangle => "mangle",
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}

/// Where rules are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub family: Family,
    pub table: Table,
    pub chain: Arc<str>,
}

impl Place {
    pub(crate) fn new(family: Family, table: Table, chain: impl Into<Arc<str>>) -> Self {
        Self { family, table, chain: chain.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A chain described by one object.
    Chain(Place),
    /// A chain of independent rules, whose order does not matter; the object itself is the rules at its end.
    List(Place),
    /// One rule of such a chain. The number counts duplicates, of which there should be none.
    Rule(Place, Rule, u32),
    /// A rule in a built-in chain, and its position among our rules there.
    Jump(Place, u8, Rule),
}

impl Key {
    pub(crate) fn place(&self) -> &Place {
        match self {
            Self::Chain(place) | Self::List(place) | Self::Rule(place, ..) | Self::Jump(place, ..) => place,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Rules(Arc<[Rule]>),
    Present,
}

impl Value {
    pub(crate) fn rules(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self::Rules(rules.into_iter().collect())
    }

    pub(crate) fn as_rules(&self) -> &[Rule] {
        match self {
            Self::Rules(rules) => rules,
            Self::Present => &[],
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.family == Family::V4 { 4 } else { 6 };
        write!(formatter, "ipv{version} {} {}", self.table.name(), self.chain)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(place) => write!(formatter, "chain {place}"),
            Self::List(place) => write!(formatter, "list {place}"),
            Self::Rule(place, rule, 0) => write!(formatter, "rule {place} {rule}"),
            Self::Rule(place, rule, copy) => write!(formatter, "rule {place} {rule} (again, {copy})"),
            Self::Jump(place, _, rule) => write!(formatter, "jump {place} {rule}"),
        }
    }
}

/// One rule per line, indented.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_rules().iter().try_for_each(|rule| write!(formatter, "\n    {rule}"))
    }
}
