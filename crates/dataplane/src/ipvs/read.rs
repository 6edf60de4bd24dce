//! Reads this mode's objects from the kernel. Foreign virtual servers are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use portolan_kernel::addresses::interface_addresses;
use portolan_kernel::ipset::{Entry, IpSets, Set};
use portolan_kernel::ipvs::ServerAddress;
use portolan_kernel::links::link_exists;
use portolan_model::Family;

use super::objects::{Key, Server, Value};
use super::sets::{SetKind, SetName};
use super::watch::{self, is_link_local};
use super::{DEVICE, Ipvs, IpvsKernel};
use crate::tables::Contents;
use crate::{Error, Objects};

impl IpvsKernel {
    pub(super) fn read_objects(&mut self) -> Result<Objects<Ipvs>, Error> {
        self.ledger.begin_read(watch::counts)?;
        let rules = self.read_rules()?.into_iter().map(|(key, value)| (Key::Rules(key), Value::Rules(value)));
        let mut objects: BTreeMap<Key, Value> = rules.collect();
        let entries = Entries::read(&mut self.sets, &mut objects)?;
        read_device(&mut objects)?;
        for (server, scheduling) in self.balancer.servers()? {
            if let Some(known) = Server::from_kernel(server).filter(|server| entries.name(*server)) {
                objects.insert(Key::Server(known), Value::Scheduling(scheduling));
                self.read_destinations(server, known, &mut objects)?;
            }
        }
        Ok(Objects(objects))
    }

    /// Running programs to read unchanged rules is most of the cost of a comparison.
    fn read_rules(&mut self) -> Result<Contents, Error> {
        match self.rules.take() {
            Some(rules) if self.tables.is_undisturbed()? => _ = self.rules.insert(rules),
            _ => self.rules = Some(self.tables.read()?),
        }
        Ok(self.rules.clone().unwrap_or_default())
    }

    /// A destination without weight gets no new connections: it drains.
    fn read_destinations(
        &mut self,
        address: ServerAddress,
        server: Server,
        objects: &mut BTreeMap<Key, Value>,
    ) -> Result<(), Error> {
        for destination in self.balancer.destinations(address)? {
            match destination.weight {
                0 => self.drains.begin(server, destination.endpoint, Instant::now()),
                weight => {
                    objects.insert(Key::Destination(server, destination.endpoint), Value::Weight(weight));
                }
            }
        }
        Ok(())
    }
}

fn read_device(objects: &mut BTreeMap<Key, Value>) -> Result<(), Error> {
    if !link_exists(DEVICE)? {
        return Ok(());
    }
    objects.insert(Key::Device, Value::Present);
    let own = interface_addresses()?.into_iter().filter(|it| it.name == DEVICE && !is_link_local(it.address));
    objects.extend(own.map(|it| (Key::Address(it.address), Value::Present)));
    Ok(())
}

/// All entries of our sets. They identify our virtual servers: an entry is written before its server and removed after
/// it.
#[derive(Default)]
pub(crate) struct Entries(BTreeMap<SetName, BTreeSet<Entry>>);

impl Entries {
    pub(crate) fn open() -> Result<Self, Error> {
        Self::read(&mut IpSets::open()?, &mut BTreeMap::new())
    }

    fn read(sets: &mut IpSets, objects: &mut BTreeMap<Key, Value>) -> Result<Self, Error> {
        let mut all = Self::default();
        for name in SetName::all() {
            let Some(Set { kind, entries, .. }) = sets.list(&name.to_string())? else { continue };
            objects.extend(kind.map(|kind| (Key::Set(name), Value::Set(kind))));
            objects.extend(entries.iter().map(|entry| (Key::Entry(name, *entry), Value::Present)));
            all.0.insert(name, entries.into_iter().collect());
        }
        Ok(all)
    }

    /// Whether a virtual server is ours or kube-proxy's.
    pub(crate) fn name(&self, server: Server) -> bool {
        let address = server.address.ip();
        let entry = Entry::IpPort(address, server.protocol, server.address.port());
        let has = |kind, entry| {
            let name = SetName { family: Family::of(address), kind };
            self.0.get(&name).is_some_and(|entries| entries.contains(&entry))
        };
        let (node_ports, _) = SetKind::of_node_ports(server.protocol);
        let kinds = [SetKind::ClusterIp, SetKind::ExternalIp, SetKind::ExternalIpLocal, SetKind::LoadBalancer];
        kinds.into_iter().any(|kind| has(kind, entry))
            || has(node_ports, Entry::Port(server.address.port()))
            || has(node_ports, entry)
    }
}
