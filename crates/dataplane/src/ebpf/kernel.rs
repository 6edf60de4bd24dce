//! The rules and the maps of the hooks, read and written together.
//!
//! A Service enters the rules first and the maps after, and leaves the maps first, so that the hooks never know more than the
//! rules. Each entry that is written leaves a whole state: a pool exists before a frontend names it, and until after no
//! frontend does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use portolan_kernel::bpf::Map;
use portolan_model::{Family, Protocol};
use portolan_plan::{FrontendAddress, Plan, ServicePlan};

use super::codec::{decode, encode_key, encode_value};
use super::hook_place::HookPlace;
use super::hooks::Hooks;
use super::objects::{FrontendKey, Key, MapName, PoolName, Value};
use super::retired::Retired;
use super::{Ebpf, with_rules};
use crate::nft::{self, Nftables, NftablesKernel};
use crate::{Change, Error, Objects, Observe, Program};

pub struct EbpfKernel {
    pub(super) rules: NftablesKernel,
    pub(super) hooks: Hooks,
    /// Frontends that found no room in the maps. The rules serve them.
    unaccelerated: BTreeSet<Key>,
    retired: Retired,
    /// Whether frontends of UDP have changed or gone since the sockets that use them were looked at.
    has_changed_udp: bool,
}

impl EbpfKernel {
    pub(super) fn new(rules: NftablesKernel, hooks: Hooks) -> Self {
        let retired = Retired::new(hooks.maps());
        Self { rules, hooks, unaccelerated: BTreeSet::new(), retired, has_changed_udp: true }
    }

    pub(super) fn take_changed_udp(&mut self) -> bool {
        std::mem::take(&mut self.has_changed_udp)
    }

    /// For tests of full maps: nothing is attached.
    #[doc(hidden)]
    pub fn with_room(cgroup: &str, most: u32) -> Result<Self, Error> {
        let hooks = Hooks::with_room(HookPlace::find(cgroup)?, most)?;
        Ok(Self::new(NftablesKernel::open()?, hooks))
    }

    /// Frontends that have no room in the maps.
    pub fn unaccelerated(&self) -> usize {
        self.unaccelerated.iter().filter(|key| whole_address(key).is_none()).count()
    }

    fn write_entries(&mut self, change: &Change<Ebpf>) -> Result<(), Error> {
        let (mut failed, before) = (Failed::default(), self.unaccelerated());
        self.make_room_for_clients(change, &mut failed);
        for map in [MapName::Own, MapName::Endpoints, MapName::Members] {
            self.write_map(map, &change.added, &mut failed)?;
        }
        let (served, left): (Vec<_>, Vec<_>) =
            of_map(&change.added, MapName::Frontends).partition(|(_, value)| !failed.concerns(value));
        left.iter().try_for_each(|(key, _)| self.leave_to_rules(key))?;
        let (addresses, ports): (Vec<_>, Vec<_>) =
            served.into_iter().partition(|(key, _)| whole_address(key).is_some());
        self.write_frontends(&ports, &mut failed)?;
        let served: Vec<_> = addresses.into_iter().filter(|(key, _)| !self.has_unaccelerated_port(key)).collect();
        self.write_frontends(&served, &mut failed)?;
        let count = self.unaccelerated();
        if let Some(error) = failed.error.filter(|_| count > before) {
            tracing::warn!("{count} frontends are not accelerated, and the rules serve them: {error}");
        }
        Ok(())
    }

    /// Before the first frontend with session affinity is written. Without the room, the rules serve it.
    fn make_room_for_clients(&mut self, change: &Change<Ebpf>, failed: &mut Failed) {
        if change.added.values().any(has_affinity)
            && let Err(error) = self.hooks.make_room_for_clients()
        {
            failed.lacks_clients = true;
            failed.error.get_or_insert(error);
        }
    }

    /// The entry of a whole address refuses every port without an entry of its own.
    fn has_unaccelerated_port(&self, address: &Key) -> bool {
        let Some(address) = whole_address(address) else { return false };
        let first = Key::Frontend(FrontendKey::Vip(SocketAddr::new(address, 0), Protocol::Tcp));
        let next = self.unaccelerated.range(first..).next();
        matches!(next, Some(Key::Frontend(FrontendKey::Vip(port, _))) if port.ip() == address)
    }

    /// Most writes succeed as one batch. Where one fails, single writes find out which entries have no room.
    fn write_map(&self, name: MapName, added: &BTreeMap<Key, Value>, failed: &mut Failed) -> Result<(), Error> {
        let map = self.hooks.map(name)?;
        let entries: Vec<Entry<'_>> = of_map(added, name).collect();
        let keys: Vec<Vec<u8>> = entries.iter().filter_map(|(key, _)| Some(encode_key(key)?.1)).collect();
        self.retired.keep(name, keys.iter());
        if write_batch(map, &entries).is_ok() {
            return Ok(());
        }
        self.retired.finish()?;
        for (key, value) in entries {
            if let Err(error) = write_one(map, key, value) {
                failed.note(key, error);
            }
        }
        Ok(())
    }

    fn write_frontends(&mut self, entries: &[Entry<'_>], failed: &mut Failed) -> Result<(), Error> {
        if write_batch(self.hooks.map(MapName::Frontends)?, entries).is_ok() {
            entries.iter().for_each(|(key, _)| _ = self.unaccelerated.remove(key));
            return Ok(());
        }
        for (key, value) in entries {
            match write_one(self.hooks.map(MapName::Frontends)?, key, value) {
                Ok(()) => _ = self.unaccelerated.remove(*key),
                Err(error) => {
                    failed.note(key, error);
                    self.leave_to_rules(key)?;
                }
            }
        }
        Ok(())
    }

    /// A deletion needs no memory, so that it succeeds where a write does not.
    fn leave_to_rules(&mut self, key: &Key) -> Result<(), Error> {
        if let Key::Frontend(FrontendKey::Vip(port, _)) = key {
            self.delete(&Key::Frontend(FrontendKey::Address(port.ip())))?;
        }
        self.delete(key)?;
        self.unaccelerated.insert(key.clone());
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<(), Error> {
        let Some((map, bytes)) = encode_key(key) else { return Ok(()) };
        self.hooks.map(map)?.delete(&bytes)?;
        Ok(())
    }

    fn remove_frontends(&mut self, change: &Change<Ebpf>) -> Result<(), Error> {
        for name in [MapName::Frontends, MapName::Own] {
            let keys = gone(change, name);
            self.hooks.map(name)?.delete_batch(keys.iter().map(|(_, bytes)| bytes.as_slice()))?;
            keys.into_iter().for_each(|(key, _)| _ = self.unaccelerated.remove(key));
        }
        Ok(())
    }

    fn retire_pools(&mut self, change: &Change<Ebpf>) {
        for name in [MapName::Endpoints, MapName::Members] {
            self.retired.add(name, gone(change, name).into_iter().map(|(_, bytes)| bytes).collect());
        }
    }
}

/// The entries that are gone, and not only changed.
fn gone(change: &Change<Ebpf>, map: MapName) -> Vec<(&Key, Vec<u8>)> {
    let gone = change.removed.keys().filter(|key| map_of(key) == Some(map) && !change.added.contains_key(key));
    gone.filter_map(|key| Some((key, encode_key(key)?.1))).collect()
}

fn is_of_udp(key: &Key) -> bool {
    matches!(key, Key::Frontend(FrontendKey::Vip(_, Protocol::Udp) | FrontendKey::NodePort(.., Protocol::Udp)))
}

impl Observe<Ebpf> for EbpfKernel {
    fn read(&mut self) -> Result<Objects<Ebpf>, Error> {
        self.retired.finish()?;
        let rules = self.rules.read()?;
        let mut objects = Objects(with_rules(rules.0, []).collect());
        read_entries(&self.hooks, &mut objects)?;
        objects.0.retain(|key, _| self.rules.serves(key.family()));
        Ok(objects)
    }

    fn read_ahead(&mut self) -> Result<(), Error> {
        self.rules.read_ahead()
    }

    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        Ok(self.rules.is_undisturbed()? && self.hooks.is_attached()?)
    }

    fn serves(&self, family: Family) -> bool {
        self.rules.serves(family)
    }
}

impl Program<Ebpf> for EbpfKernel {
    fn apply(&mut self, change: &Change<Ebpf>, only_if_undisturbed: bool) -> Result<(), Error> {
        self.has_changed_udp |= change.removed.keys().any(is_of_udp);
        self.remove_frontends(change)?;
        let rules = rules_of(change);
        if !rules.is_empty() {
            self.rules.apply(&rules, only_if_undisturbed)?;
        }
        self.write_entries(change)?;
        self.retire_pools(change);
        Ok(())
    }

    /// Follows a read of everything, which finds no trace of a frontend that had no room.
    fn adopt_clients(&mut self, plan: &Plan) -> Result<(), Error> {
        self.unaccelerated.retain(|key| is_planned(key, plan));
        self.rules.adopt_clients(plan)
    }

    /// The hooks check each time that the endpoint of a client is still in its pool.
    fn forget_clients(&mut self, service: &ServicePlan) -> Result<usize, Error> {
        self.rules.forget_clients(service)
    }
}

pub(super) fn read_entries(hooks: &Hooks, objects: &mut Objects<Ebpf>) -> Result<(), Error> {
    for name in MapName::ALL {
        let entries = hooks.map(name)?.entries()?;
        objects.0.extend(entries.iter().map(|(key, value)| decode(name, key, value)));
    }
    Ok(())
}

type Entry<'a> = (&'a Key, &'a Value);

/// What could not be written, usually because a map is full, and the first error.
#[derive(Default)]
struct Failed {
    pools: BTreeSet<PoolName>,
    /// The clients of session affinity cannot be remembered.
    lacks_clients: bool,
    error: Option<Error>,
}

impl Failed {
    fn note(&mut self, key: &Key, error: Error) {
        match key {
            Key::Slot { pool, .. } | Key::Member { pool, .. } => _ = self.pools.insert(*pool),
            Key::Own(_) => tracing::warn!("node ports at {key} are not accelerated, and the rules serve them: {error}"),
            _ => {}
        }
        self.error.get_or_insert(error);
    }

    fn concerns(&self, value: &Value) -> bool {
        let Value::Frontend(frontend) = value else { return false };
        self.lacks_clients && has_affinity(value) || frontend.pools.iter().any(|(pool, _)| self.pools.contains(pool))
    }
}

fn has_affinity(value: &Value) -> bool {
    matches!(value, Value::Frontend(frontend) if frontend.affinity > 0)
}

fn is_planned(frontend: &Key, plan: &Plan) -> bool {
    let Key::Frontend(key) = frontend else { return false };
    let (address, protocol) = match *key {
        FrontendKey::Vip(address, protocol) => (FrontendAddress::Vip(address.ip(), address.port()), protocol),
        FrontendKey::NodePort(_, port, protocol) => (FrontendAddress::NodePort(port), protocol),
        FrontendKey::Address(address) => return plan.owns_address(address),
    };
    plan.claims.holder(frontend.family(), address, protocol).is_some()
}

fn whole_address(key: &Key) -> Option<IpAddr> {
    match key {
        Key::Frontend(FrontendKey::Address(address)) => Some(*address),
        _ => None,
    }
}

fn map_of(key: &Key) -> Option<MapName> {
    match key {
        Key::Rule(_) => None,
        Key::Own(_) => Some(MapName::Own),
        Key::Slot { .. } => Some(MapName::Endpoints),
        Key::Member { .. } => Some(MapName::Members),
        Key::Frontend(_) => Some(MapName::Frontends),
        Key::Foreign { map, .. } => Some(*map),
    }
}

fn of_map(objects: &BTreeMap<Key, Value>, map: MapName) -> impl Iterator<Item = Entry<'_>> {
    objects.iter().filter(move |(key, _)| map_of(key) == Some(map))
}

fn write_batch(map: &Map, entries: &[Entry<'_>]) -> Result<(), Error> {
    let encoded: Vec<(Vec<u8>, Vec<u8>)> =
        entries.iter().filter_map(|(key, value)| Some((encode_key(key)?.1, encode_value(value)))).collect();
    Ok(map.update_batch(encoded.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))?)
}

fn write_one(map: &Map, key: &Key, value: &Value) -> Result<(), Error> {
    let Some((_, bytes)) = encode_key(key) else { return Ok(()) };
    Ok(map.update(&bytes, &encode_value(value))?)
}

fn rules_of(change: &Change<Ebpf>) -> Change<Nftables> {
    Change { removed: cloned_rules(&change.removed), added: cloned_rules(&change.added) }
}

/// The objects of the rules alone.
pub(super) fn rules_in(objects: &BTreeMap<Key, Value>) -> impl Iterator<Item = (&nft::Key, &nft::Value)> + Clone {
    objects.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Rule(key), Value::Rule(value)) => Some((key, value)),
        _ => None,
    })
}

pub(super) fn cloned_rules(objects: &BTreeMap<Key, Value>) -> BTreeMap<nft::Key, nft::Value> {
    rules_in(objects).map(|(key, value)| (key.clone(), value.clone())).collect()
}
