//! The tables of other programs: firewalls, CNI plugins, container engines. `explain` runs them beside ours, because a
//! packet that they drop does not arrive, whatever our rules do.

use portolan_kernel::nftables::{Expression, ListedChain, Nftables as Handle, TableFamily, Verdict};
use portolan_model::Family;

use super::read::{ReadSets, read_table};
use super::{Rule, Ruleset};
use crate::connections;
use crate::walk::{BaseChain, Branch, Hook, Rules, Site, Verdict as WalkVerdict};

/// Rules of other programs, and what about them cannot be run.
#[derive(Default)]
pub struct Foreign {
    rules: Ruleset,
    /// What limits every answer, in words.
    pub notes: Vec<String>,
}

/// Reads every table that sees IP packets, but our own and the one that resets open connections. Where we share a table with
/// others, rules that lead to chains of ours are left out. Tables that cannot be read limit the answer.
pub fn read_foreign(own_table: Option<&str>, is_own_chain: &dyn Fn(&str) -> bool) -> Foreign {
    read_all(own_table, is_own_chain).unwrap_or_else(|error| Foreign {
        notes: vec![format!("the rules of other programs are not run: {error}")],
        ..Foreign::default()
    })
}

fn read_all(own_table: Option<&str>, is_own_chain: &dyn Fn(&str) -> bool) -> portolan_kernel::Result<Foreign> {
    let mut handle = Handle::open()?;
    let mut foreign = Foreign::default();
    for family in TableFamily::ALL {
        let chains = handle.all_chains(family)?;
        let is_foreign = |name: &String| Some(name.as_str()) != own_table && name != connections::TABLE;
        for name in hooked_tables(&chains).into_iter().filter(is_foreign) {
            foreign.notes.extend(chains.iter().filter(|chain| chain.table == name).filter_map(|it| early(family, it)));
            let mut table = read_table(&mut handle, family, &name, &chains, ReadSets::All)?;
            table.chains.values_mut().for_each(|chain| chain.rules.retain(|rule| !leads_to(rule, is_own_chain)));
            foreign.rules.tables.push(table);
        }
    }
    Ok(foreign)
}

/// Tables without a base chain see no packet.
fn hooked_tables(chains: &[ListedChain]) -> Vec<String> {
    let mut tables: Vec<String> = chains.iter().filter(|it| it.base.is_some()).map(|it| it.table.clone()).collect();
    tables.sort();
    tables.dedup();
    tables
}

fn early(family: TableFamily, chain: &ListedChain) -> Option<String> {
    let base = chain.base.as_ref().filter(|base| base.point.is_none())?;
    let ListedChain { table, name, .. } = chain;
    Some(format!(
        "table {family} {table}, chain {name} ({}) sees packets before the IP layer and is not run",
        base.kind
    ))
}

fn leads_to(rule: &Rule, is_own_chain: &dyn Fn(&str) -> bool) -> bool {
    rule.expressions.iter().any(|expression| match expression {
        Expression::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => is_own_chain(chain),
        _ => false,
    })
}

impl Rules for Foreign {
    fn base_chains(&self, hook: Hook, family: Family) -> Vec<BaseChain> {
        self.rules.base_chains(hook, family)
    }

    fn run(&self, chain: &BaseChain, site: &Site<'_>, branch: Branch) -> Vec<(Branch, WalkVerdict)> {
        self.rules.run(chain, site, branch)
    }
}
