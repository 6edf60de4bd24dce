//! A list of a resource, collected while it arrives and then put in place at once, so that no snapshot has half of it. An
//! unchanged object keeps its `Arc` and its place in the maps; one that is no longer listed is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use portolan_model::{Node, Service, ServiceName, Slice, Slices};

use super::arrivals::Arrivals;
use super::known::Facts;
use super::report::report;
use crate::cluster::resource::{Decoded, Resource};
use crate::cluster::state::NodeState;
use crate::convert::context::Flaw;
use crate::convert::{node, service};
use crate::pods::PodKey;
use crate::spec::Metadata;

/// Namespace and name.
type SliceKey = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(in crate::cluster) struct Listing {
    /// Each with whether another proxy serves it.
    services: Arrivals<ServiceName, (Arc<Service>, bool)>,
    /// Each with its Service.
    slices: Arrivals<SliceKey, (ServiceName, Arc<Slice>)>,
    node: Option<(Node, NodeState)>,
    ranges: BTreeMap<String, Box<[IpNet]>>,
    namespaces: BTreeSet<String>,
    pods: BTreeMap<PodKey, Box<[IpAddr]>>,
}

impl Listing {
    /// An object may be deleted while initial events arrive.
    pub(in crate::cluster) fn remove(&mut self, resource: Resource, metadata: &Metadata) {
        let Metadata { name, namespace, .. } = metadata;
        match resource {
            Resource::Services => self.services.remove(ServiceName::new(namespace, name)),
            Resource::EndpointSlices => self.slices.remove((namespace.as_str().into(), name.as_str().into())),
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
    pub(in crate::cluster) fn collect(&mut self, listing: &mut Listing, object: &Decoded) {
        if let Err(flaw) = self.try_collect(listing, object) {
            report(object.resource().kind(), object.metadata(), &flaw);
            self.collect_last_good(listing, object.metadata(), object.resource());
        }
    }

    fn try_collect(&mut self, listing: &mut Listing, object: &Decoded) -> Result<(), Flaw> {
        match object {
            Decoded::Service(service) => match self.read_service(service)? {
                (name, Some(known)) => listing.services.insert(name, (known, service::is_foreign(service))),
                (_, None) => listing.remove(Resource::Services, object.metadata()),
            },
            Decoded::Slice(slice) => match self.read_slice(slice)? {
                Some((service, slice)) => listing.put_slice(service, slice),
                None => listing.remove(Resource::EndpointSlices, object.metadata()),
            },
            Decoded::Node(node) => listing.node = self.read_node(node)?.or(listing.node.take()),
            Decoded::ServiceCidr(object) => {
                listing.ranges.insert(object.metadata.name.clone(), node::service_ranges(object)?);
            }
            Decoded::Namespace(object) => _ = listing.namespaces.insert(object.metadata.name.clone()),
            Decoded::Pod(pod) => {
                let (key, addresses) = self.read_pod(pod)?;
                listing.pods.insert(key, addresses);
            }
        }
        Ok(())
    }

    /// A malformed object of a list keeps its last good version.
    pub(in crate::cluster) fn collect_last_good(
        &mut self,
        listing: &mut Listing,
        metadata: &Metadata,
        resource: Resource,
    ) {
        match resource {
            Resource::Services => {
                let known = self.known_service(metadata);
                known.into_iter().for_each(|(name, service)| listing.services.insert(name, service));
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
            Resource::Services => self.replace_services(listing.services.into_latest(), now),
            Resource::EndpointSlices => {
                let slices = listing.slices.into_latest().into_iter().map(|(_, slice)| slice);
                self.replace_slices(slices.collect(), now);
            }
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

    fn replace_services(&mut self, fresh: Vec<(ServiceName, (Arc<Service>, bool))>, now: Instant) {
        let is_there = |name: &ServiceName| fresh.binary_search_by(|(known, _)| known.cmp(name)).is_ok();
        let known = self.services.keys().chain(self.foreign.keys());
        let gone: Vec<ServiceName> = known.filter(|name| !is_there(name)).cloned().collect();
        for name in &gone {
            self.malformed.forget(name);
            self.drop_service(name, now);
        }
        for (name, (service, is_foreign)) in fresh {
            if self.insert_service(name, service, is_foreign) {
                self.changes.service(now);
                self.has_changed = true;
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
            self.has_changed = true;
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
            self.has_changed = true;
        }
    }
}
