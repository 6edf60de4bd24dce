//! Slices from a Service's selector and the Pods of its namespace.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Extras, Family, Hints, Place, Service, ServicePort, Slice, SliceEndpoint, SlicePort};

use crate::object::{Distribution, Pod, Selection, Target};

/// A Pod and its name.
type Named<'a> = (&'a Arc<str>, &'a Pod);

/// The Pods of one namespace, by label. It exists only while the Services of the namespace are processed.
#[derive(Default)]
pub(crate) struct PodIndex<'a> {
    by_label: HashMap<(&'a str, &'a str), Vec<Named<'a>>>,
}

impl<'a> PodIndex<'a> {
    pub(crate) fn new(pods: impl Iterator<Item = Named<'a>>) -> Self {
        let mut by_label: HashMap<_, Vec<Named<'_>>> = HashMap::new();
        for (name, pod) in pods.filter(|(_, pod)| !pod.addresses.is_empty()) {
            for (key, value) in &pod.labels {
                by_label.entry((&**key, &**value)).or_default().push((name, pod));
            }
        }
        Self { by_label }
    }

    /// The Pods that have all labels of a selector: those with its rarest label, filtered by the others.
    fn select<'b>(&'b self, selection: &'b Selection) -> impl Iterator<Item = Named<'b>> {
        let labels = selection.selector.iter();
        let rarest = labels.map(|(key, value)| self.with(key, value)).min_by_key(|pods| pods.len()).unwrap_or_default();
        let pods = rarest.iter().copied();
        pods.filter(move |(_, pod)| selection.selector.iter().all(|(key, value)| has_label(pod, key, value)))
    }

    fn with<'b>(&'b self, key: &'b str, value: &'b str) -> &'b [Named<'b>] {
        self.by_label.get(&(key, value)).map_or(&[], Vec::as_slice)
    }
}

fn has_label(pod: &Pod, key: &str, value: &str) -> bool {
    pod.labels.iter().any(|label| &*label.0 == key && &*label.1 == value)
}

/// What slices depend on beside the Service.
pub(crate) struct Context<'a> {
    pub(crate) pods: &'a PodIndex<'a>,
    pub(crate) zones: &'a HashMap<Arc<str>, Arc<str>>,
}

/// One slice for each family and set of resolved ports: named target ports may resolve differently on each Pod.
pub(crate) fn derived(
    service: &Service,
    families: impl Iterator<Item = Family>,
    selection: &Selection,
    context: &Context<'_>,
) -> Vec<Slice> {
    let mut slices = Vec::new();
    for family in families {
        let mut groups: BTreeMap<Box<[SlicePort]>, Vec<SliceEndpoint>> = BTreeMap::new();
        for (name, pod) in context.pods.select(selection) {
            let Some(address) = pod.addresses.iter().find(|address| Family::of(**address) == family) else { continue };
            let ports = resolved(&service.ports, &selection.targets, pod);
            groups.entry(ports).or_default().push(endpoint(service, selection, (name, pod), *address, context));
        }
        let mark = super::family_mark(family);
        let named = groups
            .into_iter()
            .enumerate()
            .map(|(index, group)| (format!("{}-{mark}-{index}", service.name.name), group));
        slices.extend(named.map(|(name, (ports, endpoints))| super::slice(name, family, ports, endpoints)));
    }
    slices
}

/// A Pod that lacks a named container port is an endpoint without that port.
fn resolved(ports: &[ServicePort], targets: &[Target], pod: &Pod) -> Box<[SlicePort]> {
    let resolve = |(port, target): (&ServicePort, &Target)| {
        let number = match target {
            Target::Number(number) => *number,
            Target::Name(name) => named_port(pod, name, port)?,
        };
        Some(SlicePort { name: port.name.clone(), protocol: port.protocol, port: number })
    };
    ports.iter().zip(targets).filter_map(resolve).collect()
}

fn named_port(pod: &Pod, name: &str, port: &ServicePort) -> Option<u16> {
    let found = pod.ports.iter().find(|candidate| *candidate.name == *name && candidate.protocol == port.protocol);
    found.map(|found| found.port)
}

fn endpoint(
    service: &Service,
    selection: &Selection,
    (name, pod): Named<'_>,
    address: IpAddr,
    context: &Context<'_>,
) -> SliceEndpoint {
    let conditions = pod.conditions(selection.publish_not_ready);
    let of_service = pod.subdomain.as_deref() == Some(&*service.name.name);
    let hints = if conditions.ready { hints(selection.distribution, pod, context.zones) } else { Hints::default() };
    let place = Place { node: Some(pod.node.clone()), zone: context.zones.get(&pod.node).cloned() };
    SliceEndpoint {
        address,
        conditions,
        weight: pod.weight,
        place: Some(Arc::new(place)),
        pod: Some((**name).into()),
        extras: Extras { hints, hostname: pod.hostname.clone().filter(|_| of_service) }.boxed(),
    }
}

fn hints(distribution: Distribution, pod: &Pod, zones: &HashMap<Arc<str>, Arc<str>>) -> Hints {
    let zones: Box<[Arc<str>]> = zones.get(&pod.node).cloned().into_iter().collect();
    let nodes: Box<[Arc<str>]> = [pod.node.clone()].into();
    match distribution {
        Distribution::Anywhere => Hints::default(),
        Distribution::SameZone => Hints { zones, nodes: [].into() },
        Distribution::SameNode => Hints { zones, nodes },
    }
}
