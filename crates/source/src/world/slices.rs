//! The slices of every Service: those of manifests, and those made from Pods or Endpoints.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use portolan_model::{ServiceKind, ServiceName, Slice, Slices};

use super::services::service;
use super::snapshot::World;
use crate::endpoints::mirror;
use crate::endpoints::pods::{self, Context, PodIndex};
use crate::object::{Kind, Object, ObjectId, Pod, ServiceObject, SliceObject};
use crate::store::Store;

impl World {
    pub(super) fn update_slices(&mut self, store: &Store, touched: &[ObjectId], lost: &[(ObjectId, Object)]) -> bool {
        let written = written_now(store, touched);
        let of_service = |id: &&ObjectId| matches!(id.kind, Kind::Service | Kind::Endpoints);
        let mut names: Vec<ServiceName> = written.iter().map(|(name, _)| name.clone()).collect();
        names.extend(written_before(store, touched, lost));
        names.extend(touched.iter().filter(of_service).map(ObjectId::service_name));
        names.extend(of_changed_pods(store, touched));
        names.extend(of_changed_nodes(store, touched));
        // Not the unstable sort: these are a few lists in order, which the stable one only merges.
        names.sort();
        names.dedup();
        let mut changed = false;
        for group in names.chunk_by(|left, right| left.namespace == right.namespace) {
            changed |= self.update_namespace_slices(store, group, &written);
        }
        changed
    }

    /// Services of one namespace share the index of its Pods.
    fn update_namespace_slices(
        &mut self,
        store: &Store,
        names: &[ServiceName],
        written: &[(ServiceName, Arc<str>)],
    ) -> bool {
        let selects = names.iter().any(|name| service(store, name).is_some_and(|service| service.selection.is_some()));
        let namespace = names.first().filter(|_| selects).map(|name| &*name.namespace);
        let pods = namespace.into_iter().flat_map(|namespace| store.of_kind(Kind::Pod, Some(namespace)));
        let index = PodIndex::new(pods.filter_map(|(id, object)| Some((&id.name, as_pod(object)?))));
        let mut changed = false;
        for name in names {
            let start = written.partition_point(|(known, _)| known < name);
            let new = written[start..].iter().take_while(|(known, _)| known == name).map(|(_, slice)| slice.clone());
            let slices = self.slices(store, name, new.collect(), &index);
            changed |= self.update_service_slices(name, slices);
        }
        changed
    }

    fn slices(
        &mut self,
        store: &Store,
        name: &ServiceName,
        new: Vec<Arc<str>>,
        index: &PodIndex<'_>,
    ) -> Vec<Arc<Slice>> {
        let service = service(store, name);
        let written = self.written(store, name, new, service);
        // Objects exported from a cluster include the slices that its controllers made.
        let is_complete = written.iter().any(|object| object.managed);
        let made = service.filter(|_| !is_complete).map(|service| made(store, service, index, &self.zones));
        let mut slices: Vec<Arc<Slice>> = written.iter().map(|object| object.slice.clone()).collect();
        slices.extend(made.unwrap_or_default().into_iter().map(Arc::new));
        slices.sort_by(|left, right| left.name.cmp(&right.name));
        slices
    }

    /// The slices of a Service that are in manifests: of those that it had and those that are new, the ones that exist.
    /// This saves an index of all slices by Service.
    fn written<'a>(
        &mut self,
        store: &'a Store,
        name: &ServiceName,
        mut candidates: Vec<Arc<str>>,
        service: Option<&ServiceObject>,
    ) -> Vec<&'a SliceObject> {
        let old = self.snapshot.slices.get(name).into_iter().flat_map(|slices| slices.0.iter());
        candidates.extend(old.map(|slice| slice.name.clone()));
        candidates.extend(self.hidden.remove(name).unwrap_or_default());
        candidates.sort_unstable();
        candidates.dedup();
        let there = candidates.iter().filter_map(|candidate| written_slice(store, name, candidate));
        // kube-proxy does not watch slices with the headless label; only DNS needs them.
        let headless = service.is_none_or(|service| service.request.headless);
        let (shown, hidden): (Vec<_>, Vec<_>) = there.partition(|object| headless || !object.headless);
        if !hidden.is_empty() {
            self.hidden.insert(name.clone(), hidden.iter().map(|object| object.slice.name.clone()).collect());
        }
        shown
    }

    /// An unchanged slice keeps its `Arc`.
    fn update_service_slices(&mut self, name: &ServiceName, mut slices: Vec<Arc<Slice>>) -> bool {
        if slices.is_empty() {
            return self.snapshot.slices.remove(name).is_some();
        }
        let old = self.snapshot.slices.get(name);
        for slice in &mut slices {
            if let Some(same) = old.and_then(|old| old.0.iter().find(|old| old == &slice)) {
                *slice = same.clone();
            }
        }
        let slices = Slices(slices.into());
        let changed = old.is_none_or(|old| **old != slices);
        if changed {
            self.snapshot.slices.insert(name.clone(), Arc::new(slices));
        }
        changed
    }
}

fn written_slice<'a>(store: &'a Store, name: &ServiceName, slice: &Arc<str>) -> Option<&'a SliceObject> {
    let id = ObjectId { kind: Kind::EndpointSlice, namespace: name.namespace.clone(), name: slice.clone() };
    let (service, object) = as_slice(&id, store.object(&id)?)?;
    (service == *name).then_some(object)
}

/// The slices that are new or changed, by their Service, in order.
fn written_now(store: &Store, touched: &[ObjectId]) -> Vec<(ServiceName, Arc<str>)> {
    let slices = touched.iter().filter(|id| id.kind == Kind::EndpointSlice);
    let slices = slices.filter_map(|id| Some((as_slice(id, store.object(id)?)?.0, id.name.clone())));
    let mut slices: Vec<_> = slices.collect();
    slices.sort_unstable();
    slices
}

/// The Services that may have lost a slice: it is gone, or another definition takes precedence.
fn written_before(store: &Store, touched: &[ObjectId], lost: &[(ObjectId, Object)]) -> Vec<ServiceName> {
    let slices = touched.iter().filter(|id| id.kind == Kind::EndpointSlice);
    let rivals = slices.flat_map(|id| store.rivals(id).map(move |object| (id, object)));
    let before = lost.iter().map(|(id, object)| (id, object)).chain(rivals);
    before.filter_map(|(id, object)| Some(as_slice(id, object)?.0)).collect()
}

/// The slices that a controller makes. Endpoints are mirrored only for a Service without selector.
fn made(store: &Store, object: &ServiceObject, pods: &PodIndex<'_>, zones: &HashMap<Arc<str>, Arc<str>>) -> Vec<Slice> {
    let service = &object.service;
    if let Some(selection) = &object.selection {
        return pods::derived(service, object.request.families(), selection, &Context { pods, zones });
    }
    match store.object(&ObjectId::of(Kind::Endpoints, &service.name)) {
        Some(Object::Endpoints(subsets)) if service.kind != ServiceKind::ExternalName => {
            mirror::mirrored(&service.name, subsets)
        }
        _ => Vec::new(),
    }
}

/// A Pod affects the Services of its namespace that have a selector.
fn of_changed_pods(store: &Store, touched: &[ObjectId]) -> Vec<ServiceName> {
    let pods = touched.iter().filter(|id| id.kind == Kind::Pod);
    let namespaces: BTreeSet<&str> = pods.map(|id| &*id.namespace).collect();
    let services = namespaces.into_iter().flat_map(|namespace| store.of_kind(Kind::Service, Some(namespace)));
    services.filter(|(_, object)| selects(object)).map(|(id, _)| id.service_name()).collect()
}

/// The zone of a node is that of its Pods, and affects every Service that selects Pods.
fn of_changed_nodes(store: &Store, touched: &[ObjectId]) -> Vec<ServiceName> {
    if !touched.iter().any(|id| id.kind == Kind::Node) {
        return Vec::new();
    }
    let services = store.of_kind(Kind::Service, None).filter(|(_, object)| selects(object));
    services.map(|(id, _)| id.service_name()).collect()
}

fn selects(object: &Object) -> bool {
    matches!(object, Object::Service(service) if service.selection.is_some())
}

/// A slice and the Service that it belongs to.
fn as_slice<'a>(id: &ObjectId, object: &'a Object) -> Option<(ServiceName, &'a SliceObject)> {
    let Object::Slice(slice) = object else { return None };
    let name = slice.service.clone()?;
    Some((ServiceName { namespace: id.namespace.clone(), name }, slice))
}

fn as_pod(object: &Object) -> Option<&Pod> {
    match object {
        Object::Pod(pod) => Some(pod),
        _ => None,
    }
}
