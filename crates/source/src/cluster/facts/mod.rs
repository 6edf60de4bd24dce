//! What is known of the cluster. The maps of the snapshot are the only store: there is no second copy of anything.

mod listing;
mod names;
mod node;
mod service;
mod slice;
mod slices;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use ipnet::IpNet;
use portolan_model::{Node, OrdMap, OrdSet, Service, ServiceName, Slices, Snapshot};

use super::Names;
use super::messages::{Metadata, ServiceCidr};
use super::resource::{Broken, Document, Resource};
use super::state::{Changes, NodeState};
use crate::convert::Flaw;
use crate::intern::Interner;
use crate::pods::PodAddresses;

pub(super) use listing::Listing;

#[derive(Debug)]
pub(super) struct Facts {
    node_name: Arc<str>,
    names: Interner,
    wanted_names: Names,
    /// Services of other proxies, and what else only names need; empty unless wanted.
    foreign: OrdMap<ServiceName, Arc<Service>>,
    namespaces: OrdSet<Arc<str>>,
    pods: PodAddresses,
    node: Arc<Node>,
    node_state: NodeState,
    services: OrdMap<ServiceName, Arc<Service>>,
    slices: OrdMap<ServiceName, Arc<Slices>>,
    ranges_by_object: BTreeMap<String, Box<[IpNet]>>,
    service_ranges: Arc<[IpNet]>,
    /// Which resources have been seen completely at least once.
    complete: Vec<Resource>,
    changes: Changes,
    /// Something changed that nobody was told about.
    is_news: bool,
    started: SystemTime,
}

impl Facts {
    pub(super) fn new(node_name: &str, wanted_names: Names, started: SystemTime) -> Self {
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
            is_news: false,
            started,
        }
    }

    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let is_complete = self.wanted().iter().all(|resource| self.complete.contains(resource));
        is_complete.then(|| Snapshot {
            node: self.node.clone(),
            services: self.services.clone(),
            slices: self.slices.clone(),
            service_ranges: self.service_ranges.clone(),
            foreign: self.foreign.clone(),
            namespaces: self.namespaces.clone(),
            pods: self.pods.all.clone(),
        })
    }

    pub(super) fn wanted(&self) -> &'static [Resource] {
        Resource::wanted(self.wanted_names)
    }

    pub(super) fn node_state(&self) -> NodeState {
        self.node_state
    }

    pub(super) fn is_complete(&self, resource: Resource) -> bool {
        self.complete.contains(&resource)
    }

    pub(super) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Ends a batch of events, and tells whether there is anything to tell.
    pub(super) fn settle(&mut self) -> bool {
        self.names.sweep();
        std::mem::take(&mut self.is_news)
    }

    /// All of a resource has been seen, even if that is nothing.
    pub(super) fn complete(&mut self, resource: Resource) {
        if !self.complete.contains(&resource) {
            self.complete.push(resource);
            self.is_news = true;
        }
    }

    /// An object came or changed. An object that is as it was keeps its `Arc`, and one that makes no sense keeps its
    /// last good version.
    pub(super) fn put(&mut self, document: &Document, is_new: bool, now: Instant) {
        let result = match document {
            Document::Service(message) => self.put_service(message, now),
            Document::Slice(message) => self.put_slice(message, is_new, now),
            Document::Node(message) => self.put_node(message),
            Document::ServiceCidr(message) => self.put_ranges(message),
            Document::Namespace(message) => self.put_namespace(&message.metadata),
            Document::Pod(message) => self.put_pod(message),
        };
        result.unwrap_or_else(|flaw| complain(document.resource().kind(), document.metadata(), &flaw));
    }

    pub(super) fn remove(&mut self, document: &Document, now: Instant) {
        let metadata = document.metadata();
        match document {
            Document::Service(_) => self.remove_service(metadata, now),
            Document::Slice(_) => self.remove_slice(metadata, now),
            Document::Node(_) if metadata.name == *self.node_name => self.forget_node(),
            Document::Node(_) => {}
            Document::Namespace(_) => self.remove_namespace(metadata),
            Document::Pod(_) => self.remove_pod(metadata),
            Document::ServiceCidr(_) => {
                self.ranges_by_object.remove(&metadata.name);
                self.collect_ranges();
            }
        }
    }

    fn put_service(&mut self, message: &super::messages::Service, now: Instant) -> Result<(), Flaw> {
        match self.read_service(message)? {
            (name, None) => self.drop_service(&name, now),
            (name, Some(service)) => {
                if self.place_service(name, service, names::is_foreign(&message.metadata)) {
                    self.changes.service(now);
                    self.is_news = true;
                }
            }
        }
        Ok(())
    }

    /// The known `Arc` if the Service means what it meant before.
    fn read_service(
        &mut self,
        message: &super::messages::Service,
    ) -> Result<(ServiceName, Option<Arc<Service>>), Flaw> {
        let name = service::name(&message.metadata, &mut self.names)?;
        let mut skipped = Vec::new();
        let service = if self.wanted_names != Names::None && message.spec.cluster_ip == "None" {
            Some(service::headless(message, name.clone(), &mut self.names)?)
        } else {
            service::convert(message, name.clone(), &mut self.names, &mut skipped)?
        };
        skipped.iter().for_each(|flaw| tracing::warn!("Service {name}: {flaw}; it is left out"));
        let Some(service) = service else { return Ok((name, None)) };
        let known = self.services.get(&name).or_else(|| self.foreign.get(&name));
        let known = known.filter(|known| ***known == service).cloned();
        Ok((name, Some(known.unwrap_or_else(|| Arc::new(service)))))
    }

    fn remove_service(&mut self, metadata: &Metadata, now: Instant) {
        self.drop_service(&ServiceName::new(&metadata.namespace, &metadata.name), now);
    }

    fn drop_service(&mut self, name: &ServiceName, now: Instant) {
        if self.services.remove(name).or(self.foreign.remove(name)).is_some() {
            self.changes.service(now);
            self.is_news = true;
        }
    }

    fn put_node(&mut self, message: &super::messages::Node) -> Result<(), Flaw> {
        if message.metadata.name == *self.node_name {
            let node = node::convert(message, &self.node_name)?;
            self.set_node(node, node::state(message));
        }
        Ok(())
    }

    /// A Node object may be deleted while its machine runs. What it last said stays in force, so that nobody who uses
    /// Services here notices; load balancers are told by the state.
    fn forget_node(&mut self) {
        self.is_news |= self.node_state != NodeState::Absent;
        self.node_state = NodeState::Absent;
    }

    fn set_node(&mut self, node: Node, state: NodeState) {
        self.is_news |= self.node_state != state || *self.node != node;
        self.node_state = state;
        if *self.node != node {
            self.node = Arc::new(node);
        }
    }

    fn put_ranges(&mut self, message: &ServiceCidr) -> Result<(), Flaw> {
        let ranges = node::service_ranges(message)?;
        self.ranges_by_object.insert(message.metadata.name.clone(), ranges);
        self.collect_ranges();
        Ok(())
    }

    fn collect_ranges(&mut self) {
        let mut ranges: Vec<IpNet> = self.ranges_by_object.values().flatten().copied().collect();
        ranges.sort_unstable();
        ranges.dedup();
        if *self.service_ranges != *ranges {
            self.service_ranges = ranges.into();
            self.is_news = true;
        }
    }
}

fn complain(kind: &str, metadata: &Metadata, flaw: &Flaw) {
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    tracing::error!("{kind} {namespace:?}/{name:?}: {flaw}; its last good version, if any, stays in force");
}

/// An object of which not even the encoding makes sense.
pub(super) fn complain_of_broken(kind: &str, broken: &Broken) {
    match &broken.metadata {
        Some(metadata) => complain(kind, metadata, &Flaw::new("the whole object", broken.reason.as_str())),
        None => tracing::error!("a {kind} that cannot be read, not even its name: {}", broken.reason),
    }
}
