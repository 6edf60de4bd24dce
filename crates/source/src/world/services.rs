//! Every Service gets its addresses, its node ports and its entry in the snapshot.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{OrdMap, Service, ServiceName};

use super::snapshot::World;
use crate::allocate::{Holding, Refusal};
use crate::object::{Kind, Object, ObjectId, ServiceObject};
use crate::report::Problem;
use crate::store::Store;

impl World {
    pub(super) fn update_services(&mut self, store: &mut Store, touched: &[ObjectId]) -> bool {
        let touched = touched.iter().filter(|id| id.kind == Kind::Service).map(ObjectId::service_name);
        let mut names: Vec<ServiceName> = touched.chain(self.refused.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names.iter().for_each(|name| self.suspend(name));
        let Order { names, gone } = order(store, names);
        let mut changed = false;
        for name in gone {
            changed |= self.remove(&name);
            self.refused.remove(&name);
        }
        self.release_departed(store);
        self.place_all(store, names) || changed
    }

    /// What one Service releases another may request: refused ones are retried for as long as that helps any of them.
    fn place_all(&mut self, store: &mut Store, mut names: Vec<ServiceName>) -> bool {
        let mut changed = false;
        loop {
            let tried = names.len();
            names.iter().for_each(|name| changed |= self.place(store, name));
            names.retain(|name| self.refused.contains_key(name));
            if names.is_empty() || names.len() == tried {
                return changed;
            }
        }
    }

    /// What a Service holds stays reserved for it while it is processed.
    fn suspend(&mut self, name: &ServiceName) {
        if let Some(service) = self.placed(name).cloned() {
            self.allocator.suspend(&service);
        }
    }

    fn placed(&self, name: &ServiceName) -> Option<&Arc<Service>> {
        self.snapshot.services.get(name).or_else(|| self.snapshot.foreign.get(name))
    }

    fn remove(&mut self, name: &ServiceName) -> bool {
        let foreign = self.snapshot.foreign.remove(name);
        self.snapshot.services.remove(name).or(foreign).is_some()
    }

    /// The allocations of a Service are released only if no document, even a malformed one, can define it.
    fn release_departed(&mut self, store: &Store) {
        if store.has_unidentified() {
            return;
        }
        let departed = |name: &&ServiceName| {
            let id = ObjectId::of(Kind::Service, name);
            store.object(&id).is_none() && !store.is_malformed(&id)
        };
        let departed: Vec<ServiceName> = self.allocator.holdings().keys().filter(departed).cloned().collect();
        for name in departed {
            self.unsaved |= self.allocator.forget(&name);
        }
    }

    fn place(&mut self, store: &mut Store, name: &ServiceName) -> bool {
        let id = ObjectId::of(Kind::Service, name);
        let before = self.allocator.holdings().get(name).cloned().unwrap_or_default();
        let Some(Object::Service(object)) = store.object_mut(&id) else { return false };
        match self.allocator.allocate(&object.service, &object.request) {
            Ok(service) => {
                self.unsaved |= before != Holding::of(&service);
                self.refused.remove(name);
                self.insert(object, service)
            }
            Err(refusal) => {
                let problem = self.problem(store, &id, &refusal);
                self.refused.insert(name.clone(), problem);
                self.remove(name)
            }
        }
    }

    /// Puts a Service into its map of the snapshot. An unchanged one keeps its `Arc`.
    fn insert(&mut self, object: &mut ServiceObject, service: Service) -> bool {
        let name = service.name.clone();
        let old = self.placed(&name).filter(|old| ***old == service).cloned();
        object.service = old.unwrap_or_else(|| Arc::new(service));
        if object.foreign {
            let left = self.snapshot.services.remove(&name).is_some();
            return put(&mut self.snapshot.foreign, name, &object.service) || left;
        }
        let left = self.snapshot.foreign.remove(&name).is_some();
        put(&mut self.snapshot.services, name, &object.service) || left
    }

    fn problem(&self, store: &Store, id: &ObjectId, refusal: &Refusal) -> Problem {
        let (file, line) = store.origin(id).unwrap_or_default();
        let reason = match refusal {
            Refusal::AddressTaken(address) => {
                format!(
                    "spec.clusterIP: {address} is held by {}",
                    self.holder(store, |held| has_address(held, *address))
                )
            }
            Refusal::PortTaken { path, number } => {
                format!("{path}: {number} is held by {}", self.holder(store, |held| has_port(held, *number)))
            }
            Refusal::NoAddressLeft(family) => format!("spec.clusterIP: there is no free {family} address left"),
            Refusal::NoPortLeft => "spec.ports: there is no free node port left".to_owned(),
        };
        Problem { file, line, object: Some(id.to_string()), reason }
    }

    /// Searches all Services, which only a refusal costs.
    fn holder(&self, store: &Store, holds: impl Fn(&Holding) -> bool) -> String {
        let placed = self.snapshot.services.iter().chain(&self.snapshot.foreign);
        let mut placed = placed.filter(|(_, service)| holds(&Holding::of(service))).map(|(name, _)| name);
        let mut others = self.allocator.holdings().iter().filter(|(_, held)| holds(held)).map(|(name, _)| name);
        let Some(name) = placed.next().or_else(|| others.next()) else { return "another port of its own".to_owned() };
        match store.origin(&ObjectId::of(Kind::Service, name)) {
            Some((file, line)) => format!("Service {name} ({file}:{line})"),
            None => format!("Service {name}"),
        }
    }
}

/// Returns whether that changed anything.
fn put(into: &mut OrdMap<ServiceName, Arc<Service>>, name: ServiceName, service: &Arc<Service>) -> bool {
    let known = into.get(&name).is_some_and(|known| Arc::ptr_eq(known, service));
    if !known {
        into.insert(name, service.clone());
    }
    !known
}

fn has_address(held: &Holding, address: IpAddr) -> bool {
    held.addresses.contains(&address)
}

fn has_port(held: &Holding, number: u16) -> bool {
    held.node_ports.iter().any(|(_, _, port)| *port == number) || held.health_port == Some(number)
}

pub(super) fn service<'a>(store: &'a Store, name: &ServiceName) -> Option<&'a ServiceObject> {
    match store.object(&ObjectId::of(Kind::Service, name))? {
        Object::Service(service) => Some(service),
        _ => None,
    }
}

/// The order in which Services get their addresses, and those that no longer exist.
struct Order {
    names: Vec<ServiceName>,
    gone: Vec<ServiceName>,
}

/// Services with explicit requests come first, in the order of files; the others follow by name.
fn order(store: &Store, names: Vec<ServiceName>) -> Order {
    let (mut explicit, mut others, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        match service(store, &name) {
            Some(service) if service.request.explicit.is_some() => explicit.push(name),
            Some(_) => others.push(name),
            None => gone.push(name),
        }
    }
    explicit.sort_by_cached_key(|name| {
        let position = store.position(&ObjectId::of(Kind::Service, name));
        position.map(|(place, document)| (place.clone(), document))
    });
    explicit.extend(others);
    Order { names: explicit, gone }
}
