//! A whole list, gathered while it arrives and put in place of what was known in one step, so that nobody sees half of
//! it. What did not change keeps its `Arc` and its place in the maps; what is not in the list any more goes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use portolan_model::{Node, Service, ServiceName, Slice, Slices};

use super::names::is_foreign;
use super::{Facts, complain, node, service};
use crate::cluster::messages::Metadata;
use crate::cluster::resource::{Document, Resource};
use crate::cluster::state::NodeState;
use crate::convert::Flaw;
use crate::pods::PodKey;

/// Namespace and name.
type SliceKey = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(in crate::cluster) struct Listing {
    /// Each with whether it is another proxy's.
    services: BTreeMap<ServiceName, (Arc<Service>, bool)>,
    /// Each with its Service.
    slices: BTreeMap<SliceKey, (ServiceName, Arc<Slice>)>,
    node: Option<(Node, NodeState)>,
    ranges: BTreeMap<String, Box<[IpNet]>>,
    namespaces: BTreeSet<String>,
    pods: BTreeMap<PodKey, Box<[IpAddr]>>,
}

impl Listing {
    /// While initial events are still arriving, an object may already go again.
    pub(in crate::cluster) fn remove(&mut self, document: &Document) {
        let Metadata { name, namespace, .. } = document.metadata();
        match document.resource() {
            Resource::Services => drop(self.services.remove(&ServiceName::new(namespace, name))),
            Resource::EndpointSlices => drop(self.slices.remove(&(namespace.as_str().into(), name.as_str().into()))),
            Resource::Node => self.node = None,
            Resource::ServiceCidrs => drop(self.ranges.remove(name)),
            Resource::Namespaces => drop(self.namespaces.remove(name)),
            Resource::Pods => drop(self.pods.remove(&(namespace.as_str().into(), name.as_str().into()))),
        }
    }

    fn put_slice(&mut self, service: ServiceName, slice: Arc<Slice>) {
        self.slices.insert((service.namespace.clone(), slice.name.clone()), (service, slice));
    }
}

impl Facts {
    pub(in crate::cluster) fn gather(&mut self, listing: &mut Listing, document: &Document) {
        if let Err(flaw) = self.try_gather(listing, document) {
            complain(document.resource().kind(), document.metadata(), &flaw);
            self.gather_last_good(listing, document.metadata(), document.resource());
        }
    }

    fn try_gather(&mut self, listing: &mut Listing, document: &Document) -> Result<(), Flaw> {
        match document {
            Document::Service(message) => match self.read_service(message)? {
                (name, Some(service)) => {
                    listing.services.insert(name, (service, is_foreign(&message.metadata)));
                }
                (_, None) => listing.remove(document),
            },
            Document::Slice(message) => match self.read_slice(message)? {
                Some((service, slice)) => listing.put_slice(service, Arc::new(slice)),
                None => listing.remove(document),
            },
            Document::Node(message) if message.metadata.name == *self.node_name => {
                listing.node = Some((node::convert(message, &self.node_name)?, node::state(message)));
            }
            Document::Node(_) => {}
            Document::ServiceCidr(message) => {
                listing.ranges.insert(message.metadata.name.clone(), node::service_ranges(message)?);
            }
            Document::Namespace(message) => _ = listing.namespaces.insert(message.metadata.name.clone()),
            Document::Pod(message) => {
                let (key, addresses) = self.read_pod(message)?;
                listing.pods.insert(key, addresses);
            }
        }
        Ok(())
    }

    /// What is in a list but makes no sense stays as it was known.
    pub(in crate::cluster) fn gather_last_good(
        &mut self,
        listing: &mut Listing,
        metadata: &Metadata,
        resource: Resource,
    ) {
        match resource {
            Resource::Services => {
                let name = service::name(metadata, &mut self.names).ok();
                let ours = |name: &ServiceName| Some((self.services.get(name)?.clone(), false));
                let foreign = |name: &ServiceName| Some((self.foreign.get(name)?.clone(), true));
                let known = name.and_then(|name| Some((name.clone(), ours(&name).or_else(|| foreign(&name))?)));
                listing.services.extend(known);
            }
            Resource::EndpointSlices => {
                if let Some((service, slice)) = self.find_slice(&metadata.namespace, &metadata.name) {
                    listing.put_slice(service.clone(), slice.clone());
                }
            }
            Resource::Node => listing.node = Some(((*self.node).clone(), self.node_state)),
            Resource::Namespaces => _ = listing.namespaces.insert(metadata.name.clone()),
            Resource::Pods => {}
            Resource::ServiceCidrs => {
                let known = self.ranges_by_object.get(&metadata.name).cloned();
                listing.ranges.extend(known.map(|ranges| (metadata.name.clone(), ranges)));
            }
        }
    }

    pub(in crate::cluster) fn replace(&mut self, resource: Resource, listing: Listing, now: Instant) {
        match resource {
            Resource::Services => self.replace_services(listing.services, now),
            Resource::EndpointSlices => self.replace_slices(listing.slices.into_values().collect(), now),
            Resource::Node => match listing.node {
                Some((node, state)) => self.set_node(node, state),
                None => self.forget_node(),
            },
            Resource::ServiceCidrs => {
                self.ranges_by_object = listing.ranges;
                self.collect_ranges();
            }
            Resource::Namespaces => self.replace_namespaces(listing.namespaces),
            Resource::Pods => self.replace_pods(&listing.pods),
        }
        self.complete(resource);
    }

    fn replace_services(&mut self, fresh: BTreeMap<ServiceName, (Arc<Service>, bool)>, now: Instant) {
        let known = self.services.keys().chain(self.foreign.keys());
        let gone: Vec<ServiceName> = known.filter(|name| !fresh.contains_key(name)).cloned().collect();
        gone.iter().for_each(|name| self.drop_service(name, now));
        for (name, (service, is_foreign)) in fresh {
            if self.place_service(name, service, is_foreign) {
                self.changes.service(now);
                self.is_news = true;
            }
        }
    }

    fn replace_slices(&mut self, mut fresh: Vec<(ServiceName, Arc<Slice>)>, now: Instant) {
        fresh.sort_unstable_by(|left, right| (&left.0, &left.1.name).cmp(&(&right.0, &right.1.name)));
        let is_there = |name: &ServiceName| fresh.binary_search_by(|(known, _)| known.cmp(name)).is_ok();
        let gone: Vec<ServiceName> = self.slices.keys().filter(|name| !is_there(name)).cloned().collect();
        for name in gone {
            let slices = self.slices.remove(&name);
            slices.iter().flat_map(|slices| slices.0.iter()).for_each(|_| self.changes.slice(now, None));
            self.is_news = true;
        }
        for group in fresh.chunk_by(|left, right| left.0 == right.0) {
            self.replace_group(&group[0].0, group, now);
        }
    }

    /// All slices of one Service.
    fn replace_group(&mut self, service: &ServiceName, group: &[(ServiceName, Arc<Slice>)], now: Instant) {
        let known = self.slices.get(service).map(|known| known.0.to_vec()).unwrap_or_default();
        let same = |slice: &Arc<Slice>| known.iter().find(|known| *known == slice).cloned();
        let slices: Vec<Arc<Slice>> =
            group.iter().map(|(_, slice)| same(slice).unwrap_or_else(|| slice.clone())).collect();
        let changed = slices.iter().filter(|slice| !known.contains(slice)).count();
        let gone = known.iter().filter(|known| !slices.iter().any(|slice| slice.name == known.name)).count();
        if changed + gone > 0 {
            (0..changed + gone).for_each(|_| self.changes.slice(now, None));
            self.slices.insert(service.clone(), Arc::new(Slices(slices.into())));
            self.is_news = true;
        }
    }
}
