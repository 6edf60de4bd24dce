//! Giving every Service its place: addresses, node ports, and an entry in the snapshot.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{OrdMap, Service, ServiceName};

use super::World;
use crate::allocate::{Holding, Refusal};
use crate::object::{Kind, Object, ObjectId, ServiceObject};
use crate::report::Problem;
use crate::store::Store;

impl World {
    pub(super) fn settle_services(&mut self, store: &mut Store, touched: &[ObjectId]) -> bool {
        let touched = touched.iter().filter(|id| id.kind == Kind::Service).map(ObjectId::service_name);
        let mut names: Vec<ServiceName> = touched.chain(self.refused.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names.iter().for_each(|name| self.displace(name));
        let (there, gone): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| service(store, name).is_some());
        let mut changed = false;
        for name in gone {
            changed |= self.vacate(&name);
            self.refused.remove(&name);
        }
        self.forget_departed(store);
        self.place_all(store, in_order(store, there)) || changed
    }

    /// What one Service gives up another may want, so those refused try again as long as that helps any of them.
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

    /// What a Service holds is kept for it while it is looked at again.
    fn displace(&mut self, name: &ServiceName) {
        if let Some(service) = self.placed(name).cloned() {
            self.allocator.displace(&service);
        }
    }

    fn placed(&self, name: &ServiceName) -> Option<&Arc<Service>> {
        self.snapshot.services.get(name).or_else(|| self.snapshot.foreign.get(name))
    }

    fn vacate(&mut self, name: &ServiceName) -> bool {
        let foreign = self.snapshot.foreign.remove(name);
        self.snapshot.services.remove(name).or(foreign).is_some()
    }

    /// A Service is forgotten only when it is certain that no document, however broken, is about it.
    fn forget_departed(&mut self, store: &Store) {
        if store.has_riddles() {
            return;
        }
        let departed = |name: &&ServiceName| {
            let id = ObjectId::of(Kind::Service, name);
            store.object(&id).is_none() && !store.mentions(&id)
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
        match self.allocator.place(&object.service, &object.wish) {
            Ok(service) => {
                self.unsaved |= before != Holding::of(&service);
                self.refused.remove(name);
                self.settle_in(object, service)
            }
            Err(refusal) => {
                let problem = self.problem(store, &id, &refusal);
                self.refused.insert(name.clone(), problem);
                self.vacate(name)
            }
        }
    }

    /// Puts a Service where it belongs. One that came out as it was keeps its `Arc`.
    fn settle_in(&mut self, object: &mut ServiceObject, service: Service) -> bool {
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

    /// Looks through all Services, which only a refusal pays for.
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

/// Tells whether that changed anything.
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

/// Whoever asks for something by name comes first, in the order of files; the others take what is left, by name.
fn in_order(store: &Store, names: Vec<ServiceName>) -> Vec<ServiceName> {
    let (mut asking, other): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| asks(store, name));
    asking.sort_by_cached_key(|name| {
        let position = store.position(&ObjectId::of(Kind::Service, name));
        position.map(|(place, document)| (place.clone(), document))
    });
    asking.extend(other);
    asking
}

fn asks(store: &Store, name: &ServiceName) -> bool {
    service(store, name).is_some_and(|service| {
        let wish = &service.wish;
        wish.demand.is_some()
    })
}
