//! What only DNS asks about: which namespaces there are, and whose address a pod's is.

use std::net::IpAddr;
use std::sync::Arc;

use super::World;
use crate::object::{Kind, Object, ObjectId};
use crate::store::Store;

impl World {
    pub(super) fn settle_names(&mut self, store: &Store, touched: &[ObjectId]) -> bool {
        let mut changed = false;
        for id in touched {
            changed |= match id.kind {
                Kind::Namespace => self.settle_namespace_name(store, id),
                Kind::Pod => self.settle_pod(store, id),
                _ => false,
            };
        }
        changed
    }

    fn settle_namespace_name(&mut self, store: &Store, id: &ObjectId) -> bool {
        match store.object(id) {
            Some(_) => self.snapshot.namespaces.insert(id.name.clone()).is_none(),
            None => self.snapshot.namespaces.remove(&id.name).is_some(),
        }
    }

    fn settle_pod(&mut self, store: &Store, id: &ObjectId) -> bool {
        let key = (id.namespace.clone(), id.name.clone());
        let new: &[IpAddr] = match store.object(id) {
            Some(Object::Pod(pod)) => &pod.addresses,
            _ => &[],
        };
        let old = self.pods.get(&key).cloned().unwrap_or_default();
        if *old == *new {
            return false;
        }
        match new {
            [] => drop(self.pods.remove(&key)),
            new => drop(self.pods.insert(key, new.into())),
        }
        old.iter().for_each(|address| self.leave(*address, &id.namespace));
        new.iter().for_each(|address| self.share(*address, &id.namespace));
        true
    }

    fn share(&mut self, address: IpAddr, namespace: &Arc<str>) {
        let key = (address, namespace.clone());
        self.snapshot.pods.insert(key.clone());
        *self.sharers.entry(key).or_default() += 1;
    }

    /// The last one of a namespace takes the address along.
    fn leave(&mut self, address: IpAddr, namespace: &Arc<str>) {
        let key = (address, namespace.clone());
        let Some(sharers) = self.sharers.get_mut(&key) else { return };
        *sharers -= 1;
        if *sharers == 0 {
            self.sharers.remove(&key);
            self.snapshot.pods.remove(&key);
        }
    }
}
