//! Writes the mode's objects to the kernel. IPVS has no transactions, so a change is written in an order in which every
//! intermediate state serves traffic: a new object is written before what refers to it, and an old one is removed after
//! what refers to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_kernel::ipset::{self, IpSets};
use portolan_kernel::ipvs::{Ipvs as Balancer, Requests, Scheduling};
use portolan_kernel::links::{AddressChanges, add_dummy_link, delete_link, link_number};
use portolan_model::{Family, IpNet};

use super::drain::{Drains, has_ends};
use super::objects::{Key, Server, Value};
use super::watch::{self, IpvsWatch};
use super::{DEVICE, Ipvs, chains, prepare};
use crate::drift::{CountWatch, Ledger, WatchForeignChanges};
use crate::tables::{Contents, RuleTally, TablesKernel, Variant};
use crate::{Change, Error, Objects, Observe, Program};

pub struct IpvsKernel {
    pub(super) tables: TablesKernel,
    /// What the tables hold, valid as long as the kernel's generation shows no foreign write.
    pub(super) rules: Option<Contents>,
    pub(super) sets: IpSets,
    pub(super) balancer: Balancer,
    pub(super) drains: Drains,
    /// Virtual servers in these ranges are never deleted.
    excluded: Vec<IpNet>,
    longest_drain: Option<Duration>,
    address_requests: usize,
    /// The numbers of sets, entries, servers, destinations and addresses.
    pub(super) ledger: Ledger,
}

type ObjectMap = BTreeMap<Key, Value>;

impl IpvsKernel {
    /// For the network namespace of the calling thread.
    pub fn open(variant: Variant) -> Result<Self, Error> {
        Ok(Self {
            tables: TablesKernel::open(variant, chains::layout())?,
            rules: None,
            sets: IpSets::open()?,
            balancer: prepare::open_balancer()?,
            drains: Drains::default(),
            excluded: Vec::new(),
            longest_drain: None,
            address_requests: 0,
            ledger: Ledger::default(),
        })
    }

    /// Virtual servers in these ranges are not deleted. Draining ends after this time, even with connections left.
    pub fn with_limits(mut self, excluded: Vec<IpNet>, longest_drain: Option<Duration>) -> Self {
        self.set_limits(excluded, longest_drain);
        self
    }

    pub fn set_limits(&mut self, excluded: Vec<IpNet>, longest_drain: Option<Duration>) {
        (self.excluded, self.longest_drain) = (excluded, longest_drain);
    }

    pub fn tally(&self) -> &RuleTally {
        self.tables.tally()
    }

    pub fn variant(&self) -> Variant {
        self.tables.variant()
    }

    pub(super) fn watch(&self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        let counts = CountWatch::new(self.ledger.clone(), watch::counts as fn() -> _);
        Ok(Box::new(IpvsWatch { tables: self.tables.watch()?, counts }))
    }

    /// The number of netlink requests that this handle has sent.
    pub fn requests_sent(&self) -> usize {
        self.balancer.requests_sent() + self.sets.requests_sent() + self.address_requests
    }

    /// Removes destinations whose connections have ended. Returns how many still have connections.
    pub fn reap(&mut self, now: Instant) -> Result<usize, Error> {
        self.drains.reap(&mut self.balancer, self.longest_drain, now)?;
        Ok(self.drains.len())
    }

    fn change_rules(&mut self, removed: &ObjectMap, added: &ObjectMap) -> Result<(), Error> {
        let of = |objects: &ObjectMap| -> Contents {
            let rules = objects.iter().filter_map(|(key, value)| match (key, value) {
                (Key::Rules(key), Value::Rules(value)) => Some((key.clone(), value.clone())),
                _ => None,
            });
            rules.collect()
        };
        let (removed, added) = (of(removed), of(added));
        if removed.is_empty() && added.is_empty() {
            return Ok(());
        }
        let known = self.rules.take();
        self.tables.write(&removed, &added)?;
        self.rules = known.map(|mut rules| {
            rules.retain(|key, _| !removed.contains_key(key));
            rules.extend(added);
            rules
        });
        Ok(())
    }

    fn make_sets(&mut self, removed: &ObjectMap, added: &ObjectMap) -> Result<(), Error> {
        let mut requests = ipset::Requests::default();
        for (key, value) in added {
            if let (Key::Set(name), Value::Set(kind)) = (key, value) {
                // A set of this name with another type is foreign.
                if removed.contains_key(key) {
                    requests.destroy(&name.to_string());
                }
                requests.create(&name.to_string(), *kind, name.family == Family::V6);
            }
        }
        self.change_sets(requests)
    }

    fn fill_sets(&mut self, added: &ObjectMap) -> Result<(), Error> {
        let mut requests = ipset::Requests::default();
        for key in added.keys() {
            if let Key::Entry(name, entry) = key {
                requests.add(&name.to_string(), entry);
            }
        }
        self.change_sets(requests)
    }

    fn empty_sets(&mut self, removed: &ObjectMap, added: &ObjectMap) -> Result<(), Error> {
        let mut requests = ipset::Requests::default();
        let is_gone = |key: &Key| !added.contains_key(key);
        for key in removed.keys().filter(|key| is_gone(key)) {
            if let Key::Entry(name, entry) = key {
                requests.delete(&name.to_string(), entry);
            }
        }
        for key in removed.keys().filter(|key| is_gone(key)) {
            if let Key::Set(name) = key {
                requests.destroy(&name.to_string());
            }
        }
        self.change_sets(requests)
    }

    fn change_sets(&mut self, requests: ipset::Requests) -> Result<(), Error> {
        if requests.is_empty() { Ok(()) } else { Ok(self.sets.perform(requests)?) }
    }

    /// An object that exists is updated: a draining destination may be wanted again.
    fn add_servers(&mut self, removed: &ObjectMap, added: &ObjectMap) -> Result<(), Error> {
        let (mut requests, mut retries) = (Requests::default(), Vec::new());
        for (key, value) in added {
            match (key, value) {
                (Key::Server(server), Value::Scheduling(scheduling)) => {
                    match removed.contains_key(key) {
                        true => requests.set_server(server.in_kernel(), scheduling.clone()),
                        false => requests.add_server(server.in_kernel(), scheduling.clone()),
                    }
                    retries.push(Retry::Server(*server, scheduling.clone()));
                }
                (Key::Destination(server, endpoint), Value::Weight(weight)) => {
                    self.drains.end(*server, *endpoint);
                    match removed.contains_key(key) {
                        true => requests.set_destination(server.in_kernel(), *endpoint, *weight),
                        false => requests.add_destination(server.in_kernel(), *endpoint, *weight),
                    }
                    retries.push(Retry::Destination(*server, *endpoint, *weight));
                }
                _ => {}
            }
        }
        let known = self.change_servers(requests)?;
        let mut requests = Requests::default();
        known.into_iter().filter_map(|index| retries.get(index)).for_each(|retry| retry.add_to(&mut requests));
        self.change_servers(requests).map(drop)
    }

    fn change_servers(&mut self, requests: Requests) -> Result<Vec<usize>, Error> {
        if requests.is_empty() { Ok(Vec::new()) } else { Ok(self.balancer.perform(requests)?) }
    }

    fn remove_servers(&mut self, removed: &ObjectMap, added: &ObjectMap) -> Result<(), Error> {
        let mut requests = Requests::default();
        let mut drained = false;
        for key in removed.keys().filter(|key| !added.contains_key(key)) {
            match key {
                Key::Server(server) => {
                    self.drains.forget_server(*server);
                    if !self.excluded.iter().any(|range| range.contains(&server.address.ip())) {
                        requests.delete_server(server.in_kernel());
                    }
                }
                // Destinations of a removed server go with it.
                Key::Destination(server, endpoint) if !is_gone(Key::Server(*server), removed, added) => {
                    if has_ends(server.protocol) {
                        requests.set_destination(server.in_kernel(), *endpoint, 0);
                        self.drains.begin(*server, *endpoint, Instant::now());
                        drained = true;
                    } else {
                        requests.delete_destination(server.in_kernel(), *endpoint);
                    }
                }
                _ => {}
            }
        }
        self.change_servers(requests)?;
        if drained { self.reap(Instant::now()).map(drop) } else { Ok(()) }
    }

    fn change_addresses(
        &mut self,
        objects: &ObjectMap,
        change: impl Fn(&mut AddressChanges, std::net::IpAddr),
    ) -> Result<(), Error> {
        let addresses: BTreeSet<_> = objects
            .keys()
            .filter_map(|key| match key {
                Key::Address(address) => Some(*address),
                _ => None,
            })
            .collect();
        let Some(link) = (if addresses.is_empty() { None } else { link_number(DEVICE)? }) else { return Ok(()) };
        let mut changes = AddressChanges::of_link(link);
        addresses.into_iter().for_each(|address| change(&mut changes, address));
        self.address_requests += changes.len();
        Ok(changes.perform()?)
    }
}

fn is_gone(key: Key, removed: &ObjectMap, added: &ObjectMap) -> bool {
    removed.contains_key(&key) && !added.contains_key(&key)
}

/// A request that is repeated as an update, because the object exists.
enum Retry {
    Server(Server, Scheduling),
    Destination(Server, SocketAddr, u32),
}

impl Retry {
    fn add_to(&self, requests: &mut Requests) {
        match self {
            Self::Server(server, scheduling) => requests.set_server(server.in_kernel(), scheduling.clone()),
            Self::Destination(server, endpoint, weight) => {
                requests.set_destination(server.in_kernel(), *endpoint, *weight);
            }
        }
    }
}

impl Observe<Ipvs> for IpvsKernel {
    fn read(&mut self) -> Result<Objects<Ipvs>, Error> {
        self.read_objects()
    }

    /// IPVS has no generation counter.
    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    fn serves(&self, family: Family) -> bool {
        self.tables.serves(family)
    }
}

impl Program<Ipvs> for IpvsKernel {
    fn apply(&mut self, change: &Change<Ipvs>, _: bool) -> Result<(), Error> {
        let ledger = self.ledger.clone();
        let writing = ledger.begin_write();
        self.write(change)?;
        writing.finish(watch::count_changes(change, &self.excluded));
        Ok(())
    }
}

impl IpvsKernel {
    fn write(&mut self, change: &Change<Ipvs>) -> Result<(), Error> {
        let Change { removed, added } = change;
        // Rules of another mode in the same chains serve until the servers are ready. Without such rules, ours come
        // first, so that no address is served without them.
        let replaces = removed.keys().any(|key| matches!(key, Key::Rules(_)));
        self.make_sets(removed, added)?;
        self.fill_sets(added)?;
        if !replaces {
            self.change_rules(removed, added)?;
        }
        self.add_servers(removed, added)?;
        if added.contains_key(&Key::Device) {
            add_dummy_link(DEVICE)?;
        }
        self.change_addresses(added, AddressChanges::add)?;
        if replaces {
            self.change_rules(removed, added)?;
        }
        self.change_addresses(removed, AddressChanges::delete)?;
        self.remove_servers(removed, added)?;
        if is_gone(Key::Device, removed, added) {
            delete_link(DEVICE)?;
        }
        self.empty_sets(removed, added)
    }
}
