//! What only DNS asks about: namespaces, pods, and the Services of other proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Service, ServiceName};

use super::super::messages::{Metadata, Pod};
use super::{Facts, service};
use crate::convert::{Flaw, check};
use crate::pods::PodKey;

/// The label by which a Service is another proxy's.
const FOREIGN: &str = "service.kubernetes.io/service-proxy-name";

pub(super) fn is_foreign(metadata: &Metadata) -> bool {
    metadata.labels.contains_key(FOREIGN)
}

impl Facts {
    pub(super) fn put_namespace(&mut self, metadata: &Metadata) -> Result<(), Flaw> {
        check::label(&metadata.name, || "metadata.name".to_owned())?;
        let name = self.names.share(&metadata.name);
        self.is_news |= self.namespaces.insert(name).is_none();
        Ok(())
    }

    pub(super) fn remove_namespace(&mut self, metadata: &Metadata) {
        self.is_news |= self.namespaces.remove(metadata.name.as_str()).is_some();
    }

    pub(super) fn replace_namespaces(&mut self, fresh: BTreeSet<String>) {
        let known: BTreeSet<String> = self.namespaces.iter().map(|name| name.to_string()).collect();
        self.is_news |= known != fresh;
        self.namespaces = fresh.iter().map(|name| self.names.share(name)).collect();
    }

    pub(super) fn put_pod(&mut self, message: &Pod) -> Result<(), Flaw> {
        let (key, addresses) = self.read_pod(message)?;
        self.is_news |= self.pods.set(&key.0, &key.1, &addresses);
        Ok(())
    }

    pub(super) fn read_pod(&mut self, message: &Pod) -> Result<(PodKey, Box<[IpAddr]>), Flaw> {
        let namespace = service::namespace(&message.metadata, &mut self.names)?;
        let texts = message.status.pod_ips.iter().map(|it| it.ip.as_str()).chain([message.status.pod_ip.as_str()]);
        let has_ended = matches!(message.status.phase.as_str(), "Succeeded" | "Failed");
        let mut addresses: Vec<IpAddr> = texts.filter(|_| !has_ended).filter_map(check::address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok(((namespace, message.metadata.name.as_str().into()), addresses.into()))
    }

    pub(super) fn remove_pod(&mut self, metadata: &Metadata) {
        self.is_news |= self.pods.set(&metadata.namespace.as_str().into(), &metadata.name.as_str().into(), &[]);
    }

    pub(super) fn replace_pods(&mut self, fresh: &BTreeMap<PodKey, Box<[IpAddr]>>) {
        self.is_news |= self.pods.retain(|key| fresh.contains_key(key));
        for ((namespace, name), addresses) in fresh {
            self.is_news |= self.pods.set(namespace, name, addresses);
        }
    }

    /// Puts a Service where it belongs: to ours, or to those of other proxies.
    pub(super) fn place_service(&mut self, name: ServiceName, service: Arc<Service>, is_foreign: bool) -> bool {
        let (into, out_of) = match is_foreign {
            true => (&mut self.foreign, &mut self.services),
            false => (&mut self.services, &mut self.foreign),
        };
        let left = out_of.remove(&name).is_some();
        let is_known = into.get(&name).is_some_and(|known| Arc::ptr_eq(known, &service));
        if !is_known {
            into.insert(name, service);
        }
        left || !is_known
    }
}
