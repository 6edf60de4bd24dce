//! Chains in the tables that the nf_tables variant of iptables keeps. Read and deleted by netlink, each family in one
//! transaction, so that no program is needed.

use std::collections::BTreeSet;

use portolan_kernel::nftables::{Batch, Expression, Nftables, Verdict};
use portolan_model::Family;

use super::chains::{Removal, Rule, TABLES, Table};
use crate::Error;

/// The tables that have chains of a service proxy. The rules of other tables are not read: they may be many.
pub(super) fn tables(handle: &mut Nftables, family: Family) -> Result<Vec<Table<u64>>, Error> {
    let present = handle.tables(family)?;
    let mut found = Vec::new();
    for name in TABLES.into_iter().filter(|name| present.iter().any(|it| it == name)) {
        let chains = handle.chains(family, name)?.into_iter().map(|(chain, _)| chain).collect();
        let mut table = Table { name: name.to_owned(), chains, rules: Vec::new(), spared: BTreeSet::new() };
        if table.has_chains() {
            table.rules = rules(handle, family, name)?;
            found.push(table);
        }
    }
    Ok(found)
}

fn rules(handle: &mut Nftables, family: Family, table: &str) -> Result<Vec<Rule<u64>>, Error> {
    let rules = handle.rules_with_handles(family, table)?.into_iter();
    Ok(rules.map(|rule| Rule { target: target(&rule.expressions), chain: rule.chain, id: rule.handle }).collect())
}

fn target(expressions: &[Expression]) -> Option<String> {
    expressions.iter().find_map(|expression| match expression {
        Expression::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => Some(chain.to_string()),
        _ => None,
    })
}

/// All tables of a family at once: there is no moment with a part of the rules.
pub(super) fn remove_chains(handle: &mut Nftables, family: Family, removals: &[Removal<u64>]) -> Result<(), Error> {
    let mut batch = Batch::new();
    for removal in removals {
        let table = removal.table.as_str();
        for (chain, rule) in &removal.jumps {
            batch.delete_rule(family, table, chain, *rule);
        }
        for chain in &removal.chains {
            batch.flush_chain(family, table, chain);
        }
        for chain in &removal.chains {
            batch.delete_chain(family, table, chain);
        }
    }
    Ok(handle.commit(batch)?)
}
