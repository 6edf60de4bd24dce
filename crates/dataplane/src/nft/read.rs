//! What the kernel's table holds, as objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_kernel::nftables::{Dump, Nftables as Handle};
use portolan_model::Family;

use super::TABLE;
use super::affinity::is_clients_map;
use super::codec::decode_object;
use super::endpoints::{Proof, frontends_of, is_of_frontends, keys_of_endpoints, look_up};
use super::former::has_former_clients;
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

/// What the table of one family holds.
pub(super) struct Content {
    family: Family,
    objects: ObjectList,
    /// Frontends are decoded when they are compared. Each is two small pieces of memory, which would lie between the facts that
    /// another thread reads meanwhile.
    frontends: Vec<(SetName, Dump)>,
}

impl Content {
    pub(super) fn has_former_clients(&self) -> bool {
        has_former_clients(&self.objects)
    }

    pub(super) fn into_objects(self) -> ObjectList {
        let Self { family, mut objects, frontends } = self;
        for (set, dump) in frontends {
            dump.elements(&mut |element| objects.push(decode_object(set, family, element)));
        }
        objects
    }
}

/// The table of one family; `None` if its sets have another layout than ours.
pub(super) fn read_table(handle: &mut Handle, family: Family, reading: &mut Reading) -> Result<Option<Content>, Error> {
    let mut content = Content { family, objects: ObjectList::new(), frontends: Vec::new() };
    read_chains(handle, family, &mut content.objects)?;
    let mut found = Vec::new();
    for (name, spec) in handle.sets(family, TABLE)? {
        if name.starts_with(ANONYMOUS) {
            continue;
        }
        let known = SetName::from_name(&name);
        let wanted = known.map(|set| set.spec(family)).or_else(|| is_clients_map(&name).then(|| clients_spec(family)));
        if wanted.as_ref().is_some_and(|wanted| !is_layout(wanted, &spec)) {
            return Ok(None);
        }
        let spec = wanted.unwrap_or(spec);
        content.objects.push((Key::Set(family, name.into()), Value::Set(Arc::new(spec))));
        found.extend(known.filter(|set| !set.is_counted()));
    }
    // The maps of frontends sort before those of endpoints, whose keys follow from them.
    found.sort_unstable();
    found.into_iter().try_for_each(|set| read_set(handle, set, reading, &mut content))?;
    Ok(Some(content))
}

fn read_set(handle: &mut Handle, set: SetName, reading: &mut Reading, content: &mut Content) -> Result<(), Error> {
    let family = content.family;
    if is_of_frontends(set) {
        content.frontends.push((set, handle.dump(family, TABLE, set.name())?));
        return Ok(());
    }
    if let Some(frontends) = frontends_of(set) {
        let dump = content.frontends.iter().find(|(of, _)| *of == frontends).map(|(_, dump)| dump);
        let mut keys = keys_of_endpoints(family, frontends, dump);
        if let Some(endpoints) = look_up(handle, family, set, reading.proof, &mut keys)? {
            content.objects.extend(endpoints);
            return Ok(());
        }
        reading.dumped.push(set);
    }
    let mut add = |element| content.objects.push(decode_object(set, family, element));
    handle.elements(family, TABLE, set.name(), &mut add)?;
    Ok(())
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
