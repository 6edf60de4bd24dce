//! One change, one batch, one transaction.

use std::collections::BTreeMap;

use portolan_kernel::nftables::{Batch, Nftables as Handle};
use portolan_model::Family;
use portolan_plan::{Plan, ServicePlan};

use super::codec::encode;
use super::endpoints::Proof;
use super::former::{Adopted, add_adopted, former_clients};
use super::objects::{Chain, Key, Value};
use super::read::{Content, Reading, read_table};
use super::sets::SetName;
use super::{Nftables, TABLE};
use crate::drift::ComparedState;
use crate::families::Families;
use crate::{Change, Error, Objects, Observe, Program, Sorted};

/// How often everything is read until no other process writes meanwhile.
const READ_ATTEMPTS: usize = 3;

/// The kernel's table, by netlink.
pub struct NftablesKernel {
    handle: Handle,
    /// The kernel counts the commits of all processes: its count if all commits since our last read were ours.
    generation: u32,
    /// The generation of the last read.
    compared: ComparedState,
    /// In these families the table holds sets of another layout, left by another version: it is replaced as a whole.
    replaced: Vec<Family>,
    families: Families,
    /// Families with session affinity of an earlier version, and the clients to keep of it.
    former: Vec<Family>,
    adopted: Adopted,
    adopts: bool,
    /// What was read for the next read. No process has written since if the generation is the same.
    ahead: Option<Vec<Content>>,
    /// How the next read is done, and what the last one had to dump.
    reading: Reading,
    /// False once the kernel has shown that it has no deletions which ignore absent elements (Linux before 6.3).
    pub(super) can_destroy: bool,
}

impl NftablesKernel {
    /// Opens the table of the network namespace that the calling thread is in. Fails if it must not be read.
    pub fn open() -> Result<Self, Error> {
        Self::with(Handle::open()?)
    }

    /// The table as this handle sees it.
    pub fn with(mut handle: Handle) -> Result<Self, Error> {
        let generation = handle.generation()?;
        Ok(Self {
            handle,
            generation,
            compared: ComparedState::default(),
            replaced: Vec::new(),
            families: Families::of_machine(),
            former: Vec::new(),
            adopted: Adopted::new(),
            adopts: true,
            ahead: None,
            reading: Reading { proof: Proof::Complete, dumped: Vec::new() },
            can_destroy: true,
        })
    }

    /// For tests of what Linux before 6.3 needs.
    #[doc(hidden)]
    pub fn delete_as_before_linux_6_3(&mut self) {
        self.can_destroy = false;
    }

    /// The first read takes no longer on a kernel that does not count elements: see `endpoints`.
    pub fn with_quick_start(mut self) -> Self {
        self.reading.proof = Proof::IfCounted;
        self
    }

    /// The sender that notifications of our own changes carry.
    pub fn port_id(&self) -> u32 {
        self.handle.port_id()
    }

    pub(super) fn compared_state(&self) -> ComparedState {
        self.compared.clone()
    }

    /// The maps of endpoints that the last read had to dump: none if they are as this mode writes them.
    pub fn dumped(&self) -> &[SetName] {
        &self.reading.dumped
    }
}

impl Observe<Nftables> for NftablesKernel {
    fn read(&mut self) -> Result<Objects<Nftables>, Error> {
        Ok(self.read_sorted()?.into())
    }

    fn read_sorted(&mut self) -> Result<Sorted<Nftables>, Error> {
        let contents = match self.ahead.take() {
            Some(contents) if self.is_undisturbed()? => contents,
            _ => self.read_one_moment()?,
        };
        self.reading.proof = Proof::Complete;
        self.compared.set(self.generation);
        Ok(contents.into_iter().flat_map(Content::into_objects).collect())
    }

    fn read_ahead(&mut self) -> Result<(), Error> {
        self.ahead = Some(self.read_one_moment()?);
        Ok(())
    }

    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        Ok(self.handle.generation()? == self.generation)
    }

    fn serves(&self, family: Family) -> bool {
        self.families.serve(family)
    }
}

impl Program<Nftables> for NftablesKernel {
    fn apply(&mut self, change: &Change<Nftables>, only_if_undisturbed: bool) -> Result<(), Error> {
        let mut batch = Batch::with_capacity(change.len() * 96);
        if only_if_undisturbed {
            batch.based_on(self.generation);
        }
        // Once, because it may go through all of a large change.
        let families: Vec<Family> = families_of(change).collect();
        for family in families.iter().copied() {
            if let Some(place) = self.replaced.iter().position(|replaced| *replaced == family) {
                self.replaced.swap_remove(place);
                replace_table(&mut batch, family);
            }
        }
        write_change(&mut batch, change, &self.adopted);
        let outcome = self.commit(batch);
        // A kernel that refuses the clients of an earlier version gets the next change without them.
        self.adopts &= self.adopted.is_empty() || outcome.as_ref().err().is_none_or(Error::is_outdated);
        self.adopted.retain(|(family, _), _| !families.contains(family));
        match outcome {
            Err(Error::Kernel(error)) if change.removed.is_empty() && error.is_unsupported() => {
                self.leave_out(change, error)
            }
            outcome => outcome,
        }
    }

    fn adopt_clients(&mut self, plan: &Plan) -> Result<(), Error> {
        self.adopted.clear();
        if !self.adopts {
            return Ok(());
        }
        for family in std::mem::take(&mut self.former) {
            let mut clients = former_clients(&mut self.handle, family, plan)?;
            self.adopted.append(&mut clients);
        }
        Ok(())
    }

    fn forget_clients(&mut self, service: &ServicePlan) -> Result<usize, Error> {
        self.forget_clients_of(service)
    }
}

impl NftablesKernel {
    /// Reads until no other process has written meanwhile, so that all parts are of one moment. Where others write all
    /// the time, the last attempt counts: most likely they write to tables of their own.
    fn read_one_moment(&mut self) -> Result<Vec<Content>, Error> {
        let mut attempt = 1;
        loop {
            self.generation = self.handle.generation()?;
            let contents = self.read_parts()?;
            if attempt == READ_ATTEMPTS || self.is_undisturbed()? {
                return Ok(contents);
            }
            attempt += 1;
        }
    }

    fn read_parts(&mut self) -> Result<Vec<Content>, Error> {
        let mut contents = Vec::new();
        self.replaced.clear();
        self.former.clear();
        self.reading.dumped.clear();
        for family in self.families.served() {
            match read_table(&mut self.handle, family, &mut self.reading)? {
                Some(content) => {
                    self.former.extend(content.has_former_clients().then_some(family));
                    contents.push(content);
                }
                None => self.replaced.push(family),
            }
        }
        Ok(contents)
    }

    /// The kernel refuses a new table because it lacks something: all others depend on it, too, so that a second attempt
    /// would fail as well. A kernel that lacks it in both families cannot have this mode.
    fn leave_out(&mut self, change: &Change<Nftables>, error: portolan_kernel::Error) -> Result<(), Error> {
        for family in families_of(change) {
            if family == Family::V4 || !self.families.serve(Family::V4) {
                return Err(error.into());
            }
            self.families.leave_out(family, &error.to_string());
        }
        Ok(())
    }

    pub(super) fn handle(&mut self) -> &mut Handle {
        &mut self.handle
    }

    pub(super) fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        if !batch.is_empty() {
            self.ahead = None;
            self.handle.commit(batch)?;
            self.generation = self.generation.wrapping_add(1);
        }
        Ok(())
    }
}

fn families_of(change: &Change<Nftables>) -> impl Iterator<Item = Family> {
    let has = |family| change.added.keys().chain(change.removed.keys()).any(|key| key.family() == family);
    Family::BOTH.into_iter().filter(move |family| has(*family))
}

/// Adding first makes the deletion work even if the table is gone.
fn replace_table(batch: &mut Batch, family: Family) {
    batch.add_table(family, TABLE);
    batch.delete_table(family, TABLE);
}

/// Additions that others refer to come first and deletions last, so that every message finds what it refers to.
fn write_change(batch: &mut Batch, change: &Change<Nftables>, adopted: &Adopted) {
    add_tables_and_sets(batch, change);
    add_adopted(batch, adopted, change);
    add_chains(batch, change);
    elements(batch, &change.removed, |batch, family, set, elements| {
        batch.delete_elements(family, TABLE, set.name(), elements);
    });
    elements(batch, &change.added, |batch, family, set, elements| {
        batch.add_elements(family, TABLE, set.name(), elements);
    });
    remove_chains_and_sets(batch, change);
}

fn add_tables_and_sets(batch: &mut Batch, change: &Change<Nftables>) {
    for family in Family::BOTH {
        if change.added.keys().any(|key| matches!(key, Key::Set(it, _) | Key::Chain(it, _) if *it == family)) {
            batch.add_table(family, TABLE);
        }
    }
    for (key, value) in &change.added {
        if let (Key::Set(family, name), Value::Set(spec)) = (key, value) {
            batch.add_set(*family, TABLE, name, spec);
        }
    }
}

/// All chains come before any rule, because rules name chains.
fn add_chains(batch: &mut Batch, change: &Change<Nftables>) {
    for (family, name, chain) in chains(&change.added) {
        let key = Key::Chain(family, name.into());
        match change.removed.get(&key) {
            Some(Value::Chain(old)) if old.hook == chain.hook => batch.flush_chain(family, TABLE, name),
            Some(_) => {
                batch.flush_chain(family, TABLE, name);
                batch.delete_chain(family, TABLE, name);
                batch.add_chain(family, TABLE, name, chain.hook.as_ref());
            }
            None => batch.add_chain(family, TABLE, name, chain.hook.as_ref()),
        }
    }
    for (family, name, chain) in chains(&change.added) {
        for rule in &chain.rules {
            batch.add_rule(family, TABLE, name, &rule.expressions, rule.comment.as_deref());
        }
    }
}

fn remove_chains_and_sets(batch: &mut Batch, change: &Change<Nftables>) {
    let gone = |family: Family, name: &str| !change.added.contains_key(&Key::Chain(family, name.into()));
    let removed: Vec<_> = chains(&change.removed).filter(|(family, name, _)| gone(*family, name)).collect();
    for (family, name, _) in &removed {
        batch.flush_chain(*family, TABLE, name);
    }
    for (family, name, _) in &removed {
        batch.delete_chain(*family, TABLE, name);
    }
    for key in change.removed.keys() {
        if let Key::Set(family, name) = key {
            batch.delete_set(*family, TABLE, name);
        }
    }
}

fn chains(objects: &BTreeMap<Key, Value>) -> impl Iterator<Item = (Family, &str, &Chain)> {
    objects.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Chain(family, name), Value::Chain(chain)) => Some((*family, &**name, &**chain)),
        _ => None,
    })
}

/// Hands the elements of each set over together, encoded one by one as they are written. Elements sort by family and set.
fn elements(
    batch: &mut Batch,
    objects: &BTreeMap<Key, Value>,
    write: impl Fn(&mut Batch, Family, SetName, &mut dyn Iterator<Item = portolan_kernel::nftables::Element>),
) {
    let elements = objects.iter().filter_map(|(key, value)| match key {
        Key::Element(family, set, key) => Some(((*family, *set), key, value)),
        Key::Set(..) | Key::Chain(..) => None,
    });
    let mut elements = elements.peekable();
    while let Some(((family, set), ..)) = elements.peek().copied() {
        let of_set = std::iter::from_fn(|| elements.next_if(|(place, ..)| *place == (family, set)));
        write(batch, family, set, &mut of_set.map(|(_, key, value)| encode(key, value)));
    }
}
