//! NAMES: the DNS view of a snapshot.
//!
//! A [`Zone`] is a value like the snapshot that it is made from: cloning it is cheap, and an update costs as much as
//! there are changes. It resolves a name to a [`Place`]; `answer` turns that into records.

mod addresses;
mod config;
mod entry;
mod place;
mod reverse;
mod targets;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::{HashMap, OrdMap, OrdSet};
use portolan_model::{Service, ServiceName, Snapshot, note_changed};

use crate::wire::Name;

pub(crate) use addresses::label;
pub use addresses::{dashed, from_dashed};
pub use config::{Pods, ZoneConfig};
pub use entry::{Endpoints, Entry};
pub use place::Place;
pub use reverse::{reverse_address, reverse_zones};
pub(crate) use targets::Targets;

#[derive(Clone, Debug)]
pub struct Zone {
    config: Arc<ZoneConfig>,
    facts: Snapshot,
    /// Keyed by the labels of service and namespace in wire format, so that a lookup makes no copy.
    entries: HashMap<Box<[u8]>, Arc<Entry>>,
    by_cluster_ip: OrdMap<IpAddr, ServiceName>,
    by_endpoint: OrdSet<(IpAddr, ServiceName)>,
    /// The time of the last change, in seconds since 1970, for secondary servers.
    pub serial: u32,
}

impl Zone {
    pub fn new(config: Arc<ZoneConfig>) -> Self {
        Self {
            config,
            facts: Snapshot::default(),
            entries: HashMap::new(),
            by_cluster_ip: OrdMap::new(),
            by_endpoint: OrdSet::new(),
            serial: 0,
        }
    }

    /// The zone of the next snapshot: only differences are processed. `seconds` becomes the serial if there are any.
    pub fn follow(&self, snapshot: &Snapshot, seconds: u32) -> Self {
        let changed = changed_services(&self.facts, snapshot);
        let mut next = Self { facts: snapshot.clone(), ..self.clone() };
        if !changed.is_empty() || next.serial == 0 {
            next.serial = seconds;
        }
        for name in &changed {
            next.remove(name);
        }
        for name in &changed {
            next.add(name);
        }
        next
    }

    fn remove(&mut self, name: &ServiceName) {
        let Some(entry) = self.entries.remove(&*key(name)) else { return };
        for address in &entry.service.cluster_ips {
            if self.by_cluster_ip.get(address) == Some(name) {
                self.by_cluster_ip.remove(address);
            }
        }
        for (_, endpoint) in entry.ready() {
            self.by_endpoint.remove(&(endpoint.address, name.clone()));
        }
    }

    fn add(&mut self, name: &ServiceName) {
        let Some(service) = self.service(name).filter(|_| self.config.serves_namespace(&name.namespace)).cloned()
        else {
            return;
        };
        let entry = Entry::new(service, self.facts.slices.get(name).cloned());
        for address in &entry.service.cluster_ips {
            self.by_cluster_ip.insert(*address, name.clone());
        }
        for (_, endpoint) in entry.ready() {
            self.by_endpoint.insert((endpoint.address, name.clone()));
        }
        self.entries.insert(key(name), Arc::new(entry));
    }

    fn service(&self, name: &ServiceName) -> Option<&Arc<Service>> {
        self.facts.services.get(name).or_else(|| self.facts.foreign.get(name))
    }

    pub fn config(&self) -> &ZoneConfig {
        &self.config
    }

    pub fn facts(&self) -> &Snapshot {
        &self.facts
    }

    pub fn entry(&self, name: &ServiceName) -> Option<&Arc<Entry>> {
        self.entries.get(&*key(name))
    }

    /// All entries, unordered.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// A namespace exists if anything in it is known.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        let first = ServiceName::new(namespace, "");
        let is_there = |found: Option<(&ServiceName, _)>| found.is_some_and(|(name, _)| *name.namespace == *namespace);
        let is_known = self.facts.namespaces.contains(namespace)
            || is_there(self.facts.services.range(first.clone()..).next())
            || is_there(self.facts.foreign.range(first..).next());
        is_known && self.config.serves_namespace(namespace)
    }

    /// Whether a pod of that namespace has the address.
    pub fn has_pod(&self, address: IpAddr, namespace: &str) -> bool {
        self.namespaces_of(address).any(|known| **known == *namespace)
    }

    /// The namespaces of the pods with an address: several for pods on the host network.
    pub fn namespaces_of(&self, address: IpAddr) -> impl Iterator<Item = &Arc<str>> {
        let first = (address, Arc::from(""));
        let found = self.facts.pods.range(first..).take_while(move |(known, _)| *known == address);
        found.map(|(_, namespace)| namespace).filter(|namespace| self.config.serves_namespace(namespace))
    }

    pub fn by_cluster_ip(&self, address: IpAddr) -> Option<&Arc<Entry>> {
        self.entry(self.by_cluster_ip.get(&address)?)
    }

    /// Every Service that has a ready endpoint at the address.
    pub fn by_endpoint(&self, address: IpAddr) -> impl Iterator<Item = &Arc<Entry>> {
        let first = (address, ServiceName::new("", ""));
        let found = self.by_endpoint.range(first..).take_while(move |(known, _)| *known == address);
        found.filter_map(|(_, name)| self.entry(name))
    }

    /// `<service>.<namespace>.svc.<zone>`.
    pub fn name_of(&self, service: &ServiceName, zone: &Name) -> Option<Name> {
        let labels = [service.name.as_bytes(), service.namespace.as_bytes(), b"svc"];
        Name::from_labels(labels, zone).ok()
    }
}

/// The two labels in wire format, as in a query. Names of Services are in lower case already.
fn key(name: &ServiceName) -> Box<[u8]> {
    let mut key = Vec::with_capacity(name.name.len() + name.namespace.len() + 2);
    for label in [&name.name, &name.namespace] {
        key.push(label.len() as u8);
        key.extend_from_slice(label.as_bytes());
    }
    key.make_ascii_lowercase();
    key.into()
}

fn changed_services(before: &Snapshot, after: &Snapshot) -> BTreeSet<ServiceName> {
    let mut changed = BTreeSet::new();
    note_changed(&before.services, &after.services, &mut changed);
    note_changed(&before.foreign, &after.foreign, &mut changed);
    note_changed(&before.slices, &after.slices, &mut changed);
    changed
}
