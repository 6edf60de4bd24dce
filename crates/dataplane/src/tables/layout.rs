//! The chains that a mode owns, and the jumps from the built-in chains to them.

use portolan_model::Family;

use super::names::{CANARY, MARK_MASQUERADE};
use super::objects::{Key, Place, Table, Value};
use super::rule::rule;
use super::{Contents, Object};

/// The part of the machine's tables that belongs to one mode. Everything else is foreign.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Chains of independent rules.
    pub(crate) lists: Vec<(Table, &'static str)>,
    /// Chains that every node has, each described by one object. Every table has a canary besides.
    pub(crate) fixed: Vec<(Table, &'static str)>,
    /// Name prefixes of the chains of single Services.
    pub(crate) prefixes: Vec<(Table, &'static str)>,
    /// In their order in the built-in chains.
    pub(crate) jumps: Vec<Jump>,
    /// Whether a rule of a list belongs at its end.
    pub(crate) is_tail: fn(Table, &str, &str) -> bool,
}

/// A rule in a built-in chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jump {
    pub(crate) table: Table,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    /// Whether it matches new connections only.
    pub(crate) only_new: bool,
    pub(crate) comment: &'static str,
}

impl Layout {
    pub(crate) fn is_list(&self, table: Table, chain: &str) -> bool {
        self.lists.contains(&(table, chain))
    }

    /// The chains of this mode, except those of single Services.
    pub(crate) fn is_static(&self, table: Table, chain: &str) -> bool {
        chain == CANARY || self.fixed.contains(&(table, chain)) || self.is_list(table, chain)
    }

    pub(crate) fn owns(&self, table: Table, chain: &str) -> bool {
        let is_of_service = |(of, prefix): &(Table, &str)| *of == table && chain.starts_with(prefix);
        self.is_static(table, chain) || self.prefixes.iter().any(is_of_service)
    }

    /// Foreign rules may jump to the masquerade mark chain, but not to the others.
    pub(crate) fn is_jump_target(&self, table: Table, chain: &str) -> bool {
        self.is_static(table, chain) && chain != MARK_MASQUERADE
    }

    pub(crate) fn jumps(&self, family: Family) -> impl Iterator<Item = Object> {
        (0..).zip(&self.jumps).map(move |(position, jump)| {
            let builder = if jump.only_new { rule().new_connections() } else { rule() };
            let place = Place::new(family, jump.table, jump.from);
            (Key::Jump(place, position, builder.comment(jump.comment).jump(jump.to)), Value::Present)
        })
    }

    /// What exists even without Services, except the contents of the fixed chains.
    pub(crate) fn frame(&self, family: Family, tail: impl Fn(Table, &str) -> Vec<super::rule::Rule>) -> Contents {
        let canaries = Table::ALL.map(|table| (Key::Chain(Place::new(family, table, CANARY)), Value::rules([])));
        let lists = self
            .lists
            .iter()
            .map(|(table, name)| (Key::List(Place::new(family, *table, *name)), Value::rules(tail(*table, name))));
        canaries.into_iter().chain(lists).chain(self.jumps(family)).collect()
    }
}
