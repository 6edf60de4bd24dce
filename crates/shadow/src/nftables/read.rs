//! Reading kube-proxy's tables.

use std::sync::Arc;

use portolan_kernel::nftables::{Expression, Nftables as Handle, SetSpec};
use portolan_model::Family;

use super::sets::Set;
use super::{Nftables, Table};

const TABLE: &str = "kube-proxy";

/// The tables as they are now; none if kube-proxy has none.
pub(crate) fn read() -> portolan_kernel::Result<Option<Nftables>> {
    let mut handle = Handle::open()?;
    let mut found = Nftables::default();
    for family in Family::BOTH {
        if handle.tables(family)?.iter().any(|name| name == TABLE) {
            let table = read_table(&mut handle, family)?;
            found.unknown.extend(table.unknown());
            found.tables.insert(family, table);
        }
    }
    Ok((!found.tables.is_empty()).then_some(found))
}

fn read_table(handle: &mut Handle, family: Family) -> portolan_kernel::Result<Table> {
    let mut table = Table::default();
    for (chain, hook) in handle.chains(family, TABLE)? {
        let name: Arc<str> = chain.into();
        table.hooked.extend(hook.map(|hook| (name.clone(), hook)));
        table.chains.insert(name, Vec::new());
    }
    for (chain, expressions) in handle.rules(family, TABLE)? {
        table.chains.entry(chain.into()).or_default().push(expressions);
    }
    let timeouts: std::collections::HashMap<String, u64> = handle.set_timeouts(family, TABLE)?.into_iter().collect();
    // Who came before is not of interest, and may be much.
    let (learned, fixed): (Vec<_>, Vec<_>) =
        handle.sets(family, TABLE)?.into_iter().partition(|(_, spec)| spec.dynamic);
    let empty = |(name, spec): &(String, SetSpec)| Set::new(spec, timeouts.get(name).copied());
    let mut sets: Vec<Set> = fixed.iter().map(empty).collect();
    handle.elements_of_all(family, TABLE, &fixed, &mut |index, element| sets[index].add(element))?;
    sets.extend(learned.iter().map(empty));
    let names = fixed.into_iter().chain(learned).map(|(name, _)| name.into());
    table.sets = names.zip(sets).collect();
    Ok(table)
}

impl Table {
    /// Expressions that cannot be run, each with the chain that has it.
    fn unknown(&self) -> Vec<String> {
        let unknown = |expression: &Expression| match expression {
            Expression::Unknown { name } => Some(name.clone()),
            Expression::Hash { .. } => Some("hash".to_owned()),
            _ => None,
        };
        let of_chain = |(chain, rules): (&Arc<str>, &Vec<Vec<Expression>>)| {
            let names: Vec<String> = rules.iter().flatten().filter_map(unknown).collect();
            names.into_iter().map(|name| format!("{name} in chain {chain}")).collect::<Vec<_>>()
        };
        self.chains.iter().flat_map(of_chain).collect()
    }
}
