//! What only DNS needs: namespaces, and the addresses of Pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::known::Facts;
use super::report::report_omitted;
use crate::convert::context::{Context, Flaw, Reading};
use crate::convert::identity::identify;
use crate::convert::pod;
use crate::object::Kind;
use crate::pods::PodKey;
use crate::spec::{Metadata, Pod};

impl Facts {
    pub(super) fn put_namespace(&mut self, metadata: &Metadata) -> Result<(), Flaw> {
        let name = identify(Kind::Namespace, metadata, &mut self.names)?.name;
        self.has_changed |= self.namespaces.insert(name).is_none();
        Ok(())
    }

    pub(super) fn remove_namespace(&mut self, metadata: &Metadata) {
        self.has_changed |= self.namespaces.remove(metadata.name.as_str()).is_some();
    }

    pub(super) fn replace_namespaces(&mut self, fresh: BTreeSet<String>) {
        let known: BTreeSet<String> = self.namespaces.iter().map(|name| name.to_string()).collect();
        self.has_changed |= known != fresh;
        self.namespaces = fresh.iter().map(|name| self.names.share(name)).collect();
    }

    pub(super) fn put_pod(&mut self, object: &Pod) -> Result<(), Flaw> {
        let (key, addresses) = self.read_pod(object)?;
        self.has_changed |= self.pods.set(&key.0, &key.1, &addresses);
        Ok(())
    }

    pub(super) fn read_pod(&mut self, object: &Pod) -> Result<(PodKey, Box<[IpAddr]>), Flaw> {
        let id = identify(Kind::Pod, &object.metadata, &mut self.names)?;
        let mut context = Context::new(Reading::Lenient, &mut self.names);
        let addresses = pod::addresses(&object.status, &mut context)?;
        report_omitted("Pod", &object.metadata, &context);
        Ok(((id.namespace, id.name), addresses))
    }

    pub(super) fn remove_pod(&mut self, metadata: &Metadata) {
        self.has_changed |= self.pods.set(&metadata.namespace.as_str().into(), &metadata.name.as_str().into(), &[]);
    }

    pub(super) fn replace_pods(&mut self, fresh: &BTreeMap<PodKey, Box<[IpAddr]>>) {
        self.has_changed |= self.pods.retain(|key| fresh.contains_key(key));
        for ((namespace, name), addresses) in fresh {
            self.has_changed |= self.pods.set(namespace, name, addresses);
        }
    }
}
