//! What DNS and questions by name need: the namespaces, and the addresses of Pods.

use std::net::IpAddr;

use super::snapshot::World;
use crate::object::{Kind, Object, ObjectId};
use crate::store::Store;

impl World {
    pub(super) fn update_names(&mut self, store: &Store, touched: &[ObjectId]) -> bool {
        let mut changed = false;
        for id in touched {
            changed |= match id.kind {
                Kind::Namespace => self.update_namespace_name(store, id),
                Kind::Pod => self.update_pod(store, id),
                _ => false,
            };
        }
        self.snapshot.pods = self.pods.all.clone();
        self.snapshot.pods_by_name = self.pods.by_pod.clone();
        changed
    }

    fn update_namespace_name(&mut self, store: &Store, id: &ObjectId) -> bool {
        match store.object(id) {
            Some(_) => self.snapshot.namespaces.insert(id.name.clone()).is_none(),
            None => self.snapshot.namespaces.remove(&id.name).is_some(),
        }
    }

    fn update_pod(&mut self, store: &Store, id: &ObjectId) -> bool {
        let addresses: &[IpAddr] = match store.object(id) {
            Some(Object::Pod(pod)) => &pod.addresses,
            _ => &[],
        };
        self.pods.set(&id.namespace, &id.name, addresses)
    }
}
