//! The facts, and how they change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use ipnet::IpNet;
use portolan_model::{Node, OrdMap, OrdSet, Service, ServiceName, Slices, Snapshot};

use super::annotations::Malformed;
use super::report::report;
use crate::cluster::events::EventWriter;
use crate::cluster::options::Names;
use crate::cluster::resource::{Decoded, Resource};
use crate::cluster::state::{Changes, NodeState};
use crate::intern::Interner;
use crate::pods::PodAddresses;
use crate::spec::Metadata;

#[derive(Debug)]
pub(in crate::cluster) struct Facts {
    pub(super) node_name: Arc<str>,
    pub(super) names: Interner,
    pub(super) wanted_names: Names,
    /// Services of other proxies, which only DNS needs, as it does namespaces and Pods.
    pub(super) foreign: OrdMap<ServiceName, Arc<Service>>,
    pub(super) namespaces: OrdSet<Arc<str>>,
    pub(super) pods: PodAddresses,
    pub(super) node: Arc<Node>,
    pub(super) node_state: NodeState,
    pub(super) services: OrdMap<ServiceName, Arc<Service>>,
    pub(super) slices: OrdMap<ServiceName, Arc<Slices>>,
    pub(super) ranges_by_object: BTreeMap<String, Box<[IpNet]>>,
    pub(super) service_ranges: Arc<[IpNet]>,
    /// The resources that have been listed at least once.
    pub(super) complete: Vec<Resource>,
    pub(super) changes: Changes,
    pub(super) malformed: Malformed,
    /// Whether anything changed since the last notification.
    pub(super) has_changed: bool,
    pub(super) started: SystemTime,
}

impl Facts {
    pub(in crate::cluster) fn new(node_name: &str, wanted_names: Names, started: SystemTime) -> Self {
        let node_name: Arc<str> = node_name.into();
        Self {
            node: Arc::new(Node { name: node_name.clone(), ..Node::default() }),
            node_name,
            names: Interner::default(),
            wanted_names,
            foreign: OrdMap::new(),
            namespaces: OrdSet::new(),
            pods: PodAddresses::default(),
            node_state: NodeState::Unknown,
            services: OrdMap::new(),
            slices: OrdMap::new(),
            ranges_by_object: BTreeMap::new(),
            service_ranges: [].into(),
            complete: Vec::new(),
            changes: Changes::default(),
            malformed: Malformed::default(),
            has_changed: false,
            started,
        }
    }

    /// Malformed annotations of Services become Events.
    pub(in crate::cluster) fn with_events(mut self, events: EventWriter) -> Self {
        self.malformed.events = Some(events);
        self
    }

    pub(in crate::cluster) fn snapshot(&self) -> Option<Snapshot> {
        let is_complete = self.wanted().iter().all(|resource| self.complete.contains(resource));
        is_complete.then(|| Snapshot {
            node: self.node.clone(),
            services: self.services.clone(),
            slices: self.slices.clone(),
            service_ranges: self.service_ranges.clone(),
            foreign: self.foreign.clone(),
            namespaces: self.namespaces.clone(),
            pods: self.pods.all.clone(),
            pods_by_name: self.pods.by_pod.clone(),
            ..Snapshot::default()
        })
    }

    pub(in crate::cluster) fn wanted(&self) -> &'static [Resource] {
        Resource::wanted(self.wanted_names)
    }

    pub(in crate::cluster) fn node_state(&self) -> NodeState {
        self.node_state
    }

    pub(in crate::cluster) fn is_complete(&self, resource: Resource) -> bool {
        self.complete.contains(&resource)
    }

    pub(in crate::cluster) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Ends a batch of events. Returns whether anything changed.
    pub(in crate::cluster) fn finish(&mut self) -> bool {
        self.names.sweep();
        std::mem::take(&mut self.has_changed)
    }

    /// A resource has been listed, even if the list is empty.
    pub(in crate::cluster) fn complete(&mut self, resource: Resource) {
        if !self.complete.contains(&resource) {
            self.complete.push(resource);
            self.has_changed = true;
        }
    }

    /// Adds or replaces an object. An unchanged one keeps its `Arc`, and a malformed one its last good version.
    pub(in crate::cluster) fn put(&mut self, object: &Decoded, is_new: bool, now: Instant) {
        let result = match object {
            Decoded::Service(it) => self.put_service(it, now),
            Decoded::Slice(it) => self.put_slice(it, is_new, now),
            Decoded::Node(it) => self.put_node(it),
            Decoded::ServiceCidr(it) => self.put_ranges(it),
            Decoded::Namespace(it) => self.put_namespace(&it.metadata),
            Decoded::Pod(it) => self.put_pod(it),
        };
        result.unwrap_or_else(|flaw| report(object.resource().kind(), object.metadata(), &flaw));
    }

    pub(in crate::cluster) fn remove(&mut self, resource: Resource, metadata: &Metadata, now: Instant) {
        match resource {
            Resource::Services => self.remove_service(metadata, now),
            Resource::EndpointSlices => self.remove_slice(metadata, now),
            Resource::Node if metadata.name == *self.node_name => self.forget_node(),
            Resource::Node => {}
            Resource::Namespaces => self.remove_namespace(metadata),
            Resource::Pods => self.remove_pod(metadata),
            Resource::ServiceCidrs => {
                self.ranges_by_object.remove(&metadata.name);
                self.collect_ranges();
            }
        }
    }
}
