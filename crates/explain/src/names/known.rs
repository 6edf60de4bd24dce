//! The names that the facts have, and which of them a term means.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Service, ServiceName, SliceEndpoint, Snapshot};
use portolan_plan::Plan;

use super::Names;
use super::domain::{self, ZoneName};
use super::suggest::{best, did_you_mean, distance, limit};
use super::term::{Kind, Name};
use crate::printable::printable;

/// Candidates in a message.
const MOST_LISTED: usize = 10;
const MOST_SUGGESTED: usize = 3;

pub(super) struct Known<'a> {
    pub(super) plan: &'a Plan,
    pub(super) facts: &'a Snapshot,
    domain: &'a str,
    node: &'a dyn Fn(&str) -> Vec<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Pod {
        namespace: Arc<str>,
        name: Arc<str>,
        addresses: Vec<IpAddr>,
        is_here: bool,
    },
    /// An endpoint with a hostname in the zone.
    Endpoint {
        label: String,
        addresses: Vec<IpAddr>,
    },
    Node {
        name: Arc<str>,
        addresses: Vec<IpAddr>,
    },
    Service(Arc<Service>),
}

impl Found {
    /// As it is written in a question.
    pub(super) fn label(&self) -> String {
        printable(&match self {
            Self::Pod { namespace, name, .. } => format!("pod/{namespace}/{name}"),
            Self::Endpoint { label, .. } => label.clone(),
            Self::Node { name, .. } => format!("node/{name}"),
            Self::Service(service) => format!("svc/{}", service.name),
        })
        .into_owned()
    }

    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Pod { namespace, .. } => Some(namespace),
            Self::Service(service) => Some(&service.name.namespace),
            Self::Endpoint { .. } | Self::Node { .. } => None,
        }
    }
}

/// Which kinds a bare name may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Hosts,
    Services,
}

impl<'a> Known<'a> {
    pub(super) fn new(names: &Names<'a>) -> Self {
        Self { plan: names.plan, facts: names.plan.facts(), domain: names.domain, node: names.node }
    }

    /// All that the term may mean, among hosts or among Services.
    pub(super) fn candidates(&self, term: &Name, wanted: Wanted) -> Vec<Found> {
        match (term.kind, wanted) {
            (Kind::Pod, Wanted::Hosts) => self.pods(term),
            (Kind::Node, Wanted::Hosts) => self.nodes(term),
            (Kind::Any, Wanted::Hosts) => [self.pods(term), self.nodes(term), self.endpoints(term)].concat(),
            (Kind::Any | Kind::Service(_), Wanted::Services) => self.services(term),
            _ => Vec::new(),
        }
    }

    /// The only candidate. A pod that looks up a bare name finds that of its own namespace first, and so does a question.
    pub(super) fn only(&self, term: &Name, candidates: Vec<Found>, near: Option<&str>) -> Result<Found, String> {
        let is_near = |found: &&Found| near.is_some() && found.namespace() == near;
        let mut nearest = candidates.iter().filter(is_near);
        match (candidates.as_slice(), nearest.next(), nearest.next()) {
            ([only], ..) => Ok(only.clone()),
            ([], ..) => Err(self.unknown(term)),
            (_, Some(near), None) => Ok(near.clone()),
            (several, ..) => Err(ambiguous(term, several)),
        }
    }

    fn pods(&self, term: &Name) -> Vec<Found> {
        let is_meant = |namespace: &str, name: &str| means(term, namespace, name);
        let mut pods = BTreeMap::<(&Arc<str>, &str), (BTreeSet<IpAddr>, bool)>::new();
        for (service, endpoint, pod) in self.named_endpoints() {
            if is_meant(&service.namespace, pod) {
                let (addresses, is_here) = pods.entry((&service.namespace, pod)).or_default();
                addresses.insert(endpoint.address);
                *is_here |= endpoint.node() == Some(&self.facts.node.name);
            }
        }
        for ((namespace, name), addresses) in &self.facts.pods_by_name {
            if is_meant(namespace, name) {
                pods.entry((namespace, &**name)).or_default().0.extend(addresses.iter().copied());
            }
        }
        let pods = pods.into_iter().map(|((namespace, name), (addresses, is_here))| Found::Pod {
            namespace: namespace.clone(),
            name: name.into(),
            addresses: addresses.into_iter().collect(),
            is_here,
        });
        pods.collect()
    }

    /// This Node, those of manifests, those that endpoints run on, and those that only an API server knows.
    fn nodes(&self, term: &Name) -> Vec<Found> {
        if term.namespace.is_some() {
            return Vec::new();
        }
        let addresses = self.node_addresses(&term.name);
        let is_known = !addresses.is_empty() || self.node_names().contains(&*term.name);
        is_known.then(|| Found::Node { name: term.name.as_str().into(), addresses }).into_iter().collect()
    }

    fn node_addresses(&self, name: &str) -> Vec<IpAddr> {
        if *name == *self.facts.node.name {
            return self.facts.node.addresses.to_vec();
        }
        match self.facts.nodes.get(name) {
            Some(addresses) => addresses.to_vec(),
            None => (self.node)(name),
        }
    }

    fn node_names(&self) -> BTreeSet<&'a str> {
        let of_endpoints = self.all_endpoints().filter_map(|(_, endpoint)| endpoint.node().map(|node| &**node));
        let own = Some(&*self.facts.node.name).filter(|name| !name.is_empty());
        of_endpoints.chain(self.facts.nodes.keys().map(|name| &**name)).chain(own).collect()
    }

    /// Those of a name in the zone.
    fn endpoints(&self, term: &Name) -> Vec<Found> {
        if term.namespace.is_some() {
            return Vec::new();
        }
        match domain::parse(&term.name, self.domain) {
            Some(ZoneName::Pod(address)) => {
                vec![Found::Endpoint { label: term.name.clone(), addresses: vec![address] }]
            }
            Some(ZoneName::Endpoint { hostname, name, namespace }) => {
                let service = ServiceName::new(namespace, name);
                let slices = self.facts.slices.get(&service).into_iter().flat_map(|slices| &slices.0);
                let endpoints = slices.flat_map(|slice| &slice.endpoints);
                let meant = endpoints.filter(|it| it.hostname() == Some(hostname)).map(|it| it.address);
                let addresses: Vec<IpAddr> = meant.collect::<BTreeSet<_>>().into_iter().collect();
                let found = Found::Endpoint { label: term.name.clone(), addresses: addresses.clone() };
                if addresses.is_empty() { Vec::new() } else { vec![found] }
            }
            _ => Vec::new(),
        }
    }

    fn services(&self, term: &Name) -> Vec<Found> {
        let exact = match (&term.namespace, domain::parse(&term.name, self.domain)) {
            (Some(namespace), _) => Some(ServiceName::new(namespace, &term.name)),
            (None, Some(ZoneName::Service { name, namespace })) => Some(ServiceName::new(namespace, name)),
            _ => None,
        };
        if let Some(name) = exact {
            return self.service(&name).map(|it| Found::Service(it.clone())).into_iter().collect();
        }
        let all = self.all_services().filter(|(name, _)| *name.name == *term.name);
        all.map(|(_, service)| Found::Service(service.clone())).collect()
    }

    pub(super) fn service(&self, name: &ServiceName) -> Option<&'a Arc<Service>> {
        self.facts.services.get(name).or_else(|| self.facts.foreign.get(name))
    }

    fn all_services(&self) -> impl Iterator<Item = (&'a ServiceName, &'a Arc<Service>)> + use<'a> {
        self.facts.services.iter().chain(&self.facts.foreign)
    }

    pub(super) fn all_endpoints(&self) -> impl Iterator<Item = (&'a ServiceName, &'a SliceEndpoint)> + use<'a> {
        let slices = self.facts.slices.iter().flat_map(|(name, slices)| slices.0.iter().map(move |it| (name, it)));
        slices.flat_map(|(name, slice)| slice.endpoints.iter().map(move |endpoint| (name, endpoint)))
    }

    fn named_endpoints(&self) -> impl Iterator<Item = (&'a ServiceName, &'a SliceEndpoint, &'a str)> + use<'a> {
        self.all_endpoints().filter_map(|(name, endpoint)| Some((name, endpoint, endpoint.pod.as_deref()?)))
    }

    fn unknown(&self, term: &Name) -> String {
        let what = match term.kind {
            Kind::Any => "pod, node or Service",
            Kind::Pod => "pod",
            Kind::Node => "node",
            Kind::Service(_) => "Service",
        };
        let suggestions = did_you_mean(&self.similar(term));
        let hint = match term.kind {
            Kind::Pod | Kind::Any if suggestions.is_empty() => {
                " (a proxy knows the pods that are endpoints of Services; write the address of another pod)"
            }
            _ => "",
        };
        format!("no {what} is named {:?}{suggestions}{hint}", written(term))
    }

    fn similar(&self, term: &Name) -> Vec<String> {
        let score = |namespace: Option<&str>, name: &str| score(term, namespace, name);
        let mut scored = Vec::new();
        if !matches!(term.kind, Kind::Node | Kind::Service(_)) {
            let listed = self.named_endpoints().map(|(service, _, pod)| (&service.namespace, pod));
            let watched = self.facts.pods_by_name.keys().map(|(namespace, name)| (namespace, &**name));
            let close = listed.chain(watched).filter_map(|(namespace, name)| {
                Some((score(Some(namespace), name)?, printable(&format!("pod/{namespace}/{name}")).into_owned()))
            });
            scored.extend(close);
        }
        if matches!(term.kind, Kind::Any | Kind::Node) {
            let close = self.node_names().into_iter();
            scored.extend(close.filter_map(|name| Some((score(None, name)?, format!("node/{name}")))));
        }
        if matches!(term.kind, Kind::Any | Kind::Service(_)) {
            let close = self.all_services().filter_map(|(name, service)| {
                Some((score(Some(&name.namespace), &name.name)?, Found::Service(service.clone()).label()))
            });
            scored.extend(close);
        }
        best(scored, MOST_SUGGESTED)
    }
}

/// Whether a term without a kind that excludes pods means this pod. Names of pods may have dots, and namespaces have none.
fn means(term: &Name, namespace: &str, name: &str) -> bool {
    match &term.namespace {
        Some(given) => given == namespace && term.name == name,
        None => term.name == name || term.name.rsplit_once('.') == Some((name, namespace)),
    }
}

/// Fewer changes are better; the same name in another namespace is as good as one change. Nodes have no namespace.
fn score(term: &Name, namespace: Option<&str>, name: &str) -> Option<usize> {
    let plain = distance(&term.name, name, limit(&term.name));
    match (namespace, term.namespace.as_deref()) {
        (None, _) => plain,
        (Some(namespace), Some(given)) => plain.map(|distance| distance + usize::from(namespace != given)),
        (Some(namespace), None) => [plain, dotted(term, namespace, name)].into_iter().flatten().min(),
    }
}

/// The same for `NAME.NAMESPACE`.
fn dotted(term: &Name, namespace: &str, name: &str) -> Option<usize> {
    let mut labels = term.name.split('.');
    let (given, given_namespace) = (labels.next()?, labels.next()?);
    if given == name && given_namespace != namespace {
        return Some(1);
    }
    distance(&format!("{given}.{given_namespace}"), &format!("{name}.{namespace}"), limit(&term.name))
}

fn ambiguous(term: &Name, candidates: &[Found]) -> String {
    let mut labels: Vec<String> = candidates.iter().take(MOST_LISTED).map(Found::label).collect();
    if candidates.len() > MOST_LISTED {
        labels.push(format!("and {} more", candidates.len() - MOST_LISTED));
    }
    format!("{:?} is ambiguous: write one of {}", written(term), labels.join(", "))
}

/// The term without its kind.
fn written(term: &Name) -> String {
    match &term.namespace {
        Some(namespace) => format!("{namespace}/{}", term.name),
        None => term.name.clone(),
    }
}
