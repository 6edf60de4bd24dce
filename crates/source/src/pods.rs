//! The addresses of Pods: by namespace, which DNS uses, and by name, which questions use.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{OrdMap, OrdSet};

pub(crate) use portolan_model::PodName as PodKey;

/// The addresses of all known Pods, in the form of the snapshot.
#[derive(Debug, Default)]
pub(crate) struct PodAddresses {
    pub(crate) by_pod: OrdMap<PodKey, Arc<[IpAddr]>>,
    /// How many Pods of a namespace have an address: those on the host network share one.
    sharers: HashMap<(IpAddr, Arc<str>), u32>,
    pub(crate) all: OrdSet<(IpAddr, Arc<str>)>,
}

impl PodAddresses {
    /// Replaces the addresses of a Pod; none removes it. Returns whether anything changed.
    pub(crate) fn set(&mut self, namespace: &Arc<str>, name: &Arc<str>, new: &[IpAddr]) -> bool {
        let key = (namespace.clone(), name.clone());
        let old: Arc<[IpAddr]> = self.by_pod.get(&key).cloned().unwrap_or_default();
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

    /// Removes all other Pods.
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

    /// The address goes with the last Pod of the namespace that has it.
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
