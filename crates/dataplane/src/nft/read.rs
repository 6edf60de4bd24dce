//! What the kernel's table holds, as objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_kernel::nftables::Nftables as Handle;
use portolan_model::Family;

use super::TABLE;
use super::affinity::is_clients_map;
use super::codec::decode;
use super::endpoints::{Proof, is_of_endpoints, read_endpoints};
use super::objects::{Chain, Key, ObjectList, Value};
use super::rules::Rule;
use super::sets::{SetName, clients_spec, is_layout};
use crate::Error;

/// Sets that belong to one rule have such names; they come and go with the rule.
const ANONYMOUS: &str = "__";

/// How a table is read.
pub(super) struct Reading {
    pub(super) proof: Proof,
    /// The maps of endpoints that had to be dumped.
    pub(super) dumped: Vec<SetName>,
}

/// Adds the table of one family; false if its sets have another layout than ours.
pub(super) fn read_table(
    handle: &mut Handle,
    family: Family,
    reading: &mut Reading,
    objects: &mut ObjectList,
) -> Result<bool, Error> {
    read_chains(handle, family, objects)?;
    let mut found = Vec::new();
    for (name, spec) in handle.sets(family, TABLE)? {
        if name.starts_with(ANONYMOUS) {
            continue;
        }
        let known = SetName::from_name(&name);
        let wanted = known.map(|set| set.spec(family)).or_else(|| is_clients_map(&name).then(|| clients_spec(family)));
        if wanted.as_ref().is_some_and(|wanted| !is_layout(wanted, &spec)) {
            return Ok(false);
        }
        let spec = wanted.unwrap_or(spec);
        objects.push((Key::Set(family, name.into()), Value::Set(Arc::new(spec))));
        found.extend(known.filter(|set| !set.is_counted()));
    }
    // The maps of frontends sort before those of endpoints, whose keys follow from them.
    found.sort_unstable();
    found.into_iter().try_for_each(|set| read_set(handle, family, set, reading, objects))?;
    Ok(true)
}

fn read_set(
    handle: &mut Handle,
    family: Family,
    set: SetName,
    reading: &mut Reading,
    objects: &mut ObjectList,
) -> Result<(), Error> {
    if is_of_endpoints(set) {
        if read_endpoints(handle, family, set, reading.proof, objects)? {
            return Ok(());
        }
        reading.dumped.push(set);
    }
    read_elements(handle, family, set, objects)
}

fn read_chains(handle: &mut Handle, family: Family, objects: &mut ObjectList) -> Result<(), Error> {
    let mut rules: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
    for (chain, expressions) in handle.rules(family, TABLE)? {
        rules.entry(chain).or_default().push(Rule::read(expressions));
    }
    for (name, hook) in handle.chains(family, TABLE)? {
        let chain = Chain { hook, rules: rules.remove(&name).unwrap_or_default() };
        objects.push((Key::Chain(family, name.into()), Value::Chain(Arc::new(chain))));
    }
    Ok(())
}

fn read_elements(handle: &mut Handle, family: Family, set: SetName, objects: &mut ObjectList) -> Result<(), Error> {
    handle.elements(family, TABLE, set.name(), &mut |element| {
        let (key, value) = decode(set, family, element);
        objects.push((Key::Element(family, set, key), value));
    })?;
    Ok(())
}
