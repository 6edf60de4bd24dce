//! Tables of the kernel, ready to be run.

use std::collections::HashMap;
use std::sync::Arc;

use portolan_kernel::nftables::{HookPoint, ListedBase, ListedChain, Nftables as Handle, TableFamily};
use portolan_model::Family;

use super::sets::Set;
use super::table::{Base, Chain, OnError, Rule, Table};
use crate::walk::{ChainKind, Hook};

/// What is read of sets that packets fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSets {
    /// Their elements.
    All,
    /// Only what they are: the elements are clients, and the packet belongs to a new one.
    WithoutClients,
}

/// Reads the table that has these chains; other tables may have chains in the list, too.
pub fn read_table(
    handle: &mut Handle,
    family: TableFamily,
    name: &str,
    chains: &[ListedChain],
    sets: ReadSets,
) -> portolan_kernel::Result<Table> {
    let on_error = if sets == ReadSets::All { OnError::Skip } else { OnError::End };
    let mut table = Table::new(format!("table {family} {name}"), families(family), on_error);
    for chain in chains.iter().filter(|chain| chain.table == name) {
        let base = chain.base.as_ref().and_then(base);
        table.chains.insert(chain.name.as_str().into(), Chain { base, rules: Vec::new() });
    }
    for rule in handle.rules_with_handles(family, name)? {
        let chain = table.chains.entry(rule.chain.into()).or_default();
        chain.rules.push(Rule { handle: Some(rule.handle), expressions: rule.expressions });
    }
    table.sets = read_sets(handle, family, name, sets)?;
    Ok(table)
}

/// All elements are read at one moment.
fn read_sets(
    handle: &mut Handle,
    family: TableFamily,
    table: &str,
    sets: ReadSets,
) -> portolan_kernel::Result<HashMap<Arc<str>, Set>> {
    let timeouts: HashMap<String, u64> = handle.set_timeouts(family, table)?.into_iter().collect();
    let (clients, listed): (Vec<_>, Vec<_>) =
        handle.sets(family, table)?.into_iter().partition(|(_, spec)| spec.dynamic && sets == ReadSets::WithoutClients);
    let mut filled: Vec<Set> = listed.iter().map(|(name, spec)| Set::new(spec, timeouts.get(name).copied())).collect();
    handle.elements_of_all(family, table, &listed, &mut |index, element| filled[index].add(element))?;
    let empty = clients.iter().map(|(name, spec)| Set::of_clients(spec, timeouts.get(name).copied()));
    let all: Vec<Set> = filled.into_iter().chain(empty).collect();
    Ok(listed.into_iter().chain(clients).map(|(name, _)| name.into()).zip(all).collect())
}

pub(super) fn families(family: TableFamily) -> &'static [Family] {
    match family {
        TableFamily::Ip => &[Family::V4],
        TableFamily::Ip6 => &[Family::V6],
        TableFamily::Inet => &Family::BOTH,
    }
}

/// `None` for a chain at a hook that is not an IP hook.
fn base(base: &ListedBase) -> Option<Base> {
    let kind = if base.kind == "nat" { ChainKind::Nat } else { ChainKind::Filter };
    let hook = Hook::from(base.point?);
    Some(Base { hook, kind, priority: base.priority, policy: base.policy })
}

impl From<HookPoint> for Hook {
    fn from(point: HookPoint) -> Self {
        match point {
            HookPoint::Prerouting => Self::Prerouting,
            HookPoint::Input => Self::Input,
            HookPoint::Forward => Self::Forward,
            HookPoint::Output => Self::Output,
            HookPoint::Postrouting => Self::Postrouting,
        }
    }
}
