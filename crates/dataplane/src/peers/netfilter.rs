//! kube-proxy's objects in nf_tables: the tables of its nftables mode, and its chains in the tables that the nf_tables
//! variant of iptables keeps. Read and deleted by netlink, each family in one transaction, so that no program is needed.

use std::collections::BTreeSet;

use portolan_kernel::nftables::{Batch, Expression, Nftables, Verdict};
use portolan_model::Family;

use super::chains::{Removal, Rule, TABLES, Table};
use crate::Error;

/// The table of kube-proxy's nftables mode, in both families.
pub(super) const KUBE_PROXY: &str = "kube-proxy";
/// Its maps from addresses to what happens there.
const SERVICE_MAPS: [&str; 2] = ["service-ips", "no-endpoint-services"];

pub(super) fn has_table(handle: &mut Nftables, family: Family) -> Result<bool, Error> {
    Ok(handle.tables(family)?.iter().any(|name| name == KUBE_PROXY))
}

/// Whether the table of kube-proxy's nftables mode knows at least one Service.
pub(super) fn table_has_services(handle: &mut Nftables, family: Family) -> Result<bool, Error> {
    for map in SERVICE_MAPS {
        if has_elements(handle, family, KUBE_PROXY, map)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn has_elements(handle: &mut Nftables, family: Family, table: &str, set: &str) -> Result<bool, Error> {
    let mut any = false;
    handle.elements(family, table, set, &mut |_| any = true)?;
    Ok(any)
}

/// Another transaction may have deleted the table first, which is as good.
pub(super) fn remove_table(handle: &mut Nftables, family: Family) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.delete_table(family, KUBE_PROXY);
    match handle.commit(batch) {
        Err(error) if error.is_absent() => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// The tables of iptables that have chains of kube-proxy. A table without any is not read further: it may be large.
pub(super) fn iptables_tables(handle: &mut Nftables, family: Family) -> Result<Vec<Table<u64>>, Error> {
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
