//! Whose address a pod's is: of use to DNS only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::OrdSet;

/// Namespace and name.
pub(crate) type PodKey = (Arc<str>, Arc<str>);

/// The addresses of all pods that are known, in the form of the snapshot.
#[derive(Debug, Default)]
pub(crate) struct PodAddresses {
    by_pod: HashMap<PodKey, Box<[IpAddr]>>,
    /// How many pods of a namespace share an address: those on the node's own network do.
    sharers: HashMap<(IpAddr, Arc<str>), u32>,
    pub(crate) all: OrdSet<(IpAddr, Arc<str>)>,
}

impl PodAddresses {
    /// The pod has these addresses now, or none any more. Tells whether that changed anything.
    pub(crate) fn set(&mut self, namespace: &Arc<str>, name: &Arc<str>, new: &[IpAddr]) -> bool {
        let key = (namespace.clone(), name.clone());
        let old = self.by_pod.get(&key).cloned().unwrap_or_default();
        if *old == *new {
            return false;
        }
        match new {
            [] => drop(self.by_pod.remove(&key)),
            new => drop(self.by_pod.insert(key, new.into())),
        }
        old.iter().for_each(|address| self.leave(*address, namespace));
        new.iter().for_each(|address| self.share(*address, namespace));
        true
    }

    /// Pods that are not among these are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&PodKey) -> bool) -> bool {
        let gone: Vec<PodKey> = self.by_pod.keys().filter(|key| !is_there(key)).cloned().collect();
        gone.iter().for_each(|(namespace, name)| _ = self.set(namespace, name, &[]));
        !gone.is_empty()
    }

    fn share(&mut self, address: IpAddr, namespace: &Arc<str>) {
        let key = (address, namespace.clone());
        self.all.insert(key.clone());
        *self.sharers.entry(key).or_default() += 1;
    }

    /// The last one of a namespace takes the address along.
    fn leave(&mut self, address: IpAddr, namespace: &Arc<str>) {
        let key = (address, namespace.clone());
        let Some(sharers) = self.sharers.get_mut(&key) else { return };
        *sharers -= 1;
        if *sharers == 0 {
            self.sharers.remove(&key);
            self.all.remove(&key);
        }
    }
}
