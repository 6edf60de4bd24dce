//! What is kept of each object: the facts themselves, and what playing the control plane needs besides.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use portolan_model::{Conditions, Family, Protocol, Service, ServiceName, Slice, SlicePort};

/// The order of the kinds is only that of a map; namespaced names within one kind and namespace lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Service,
    EndpointSlice,
    Endpoints,
    Pod,
    Node,
    Namespace,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// Whose document it is. A Node or a Namespace has an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId {
    pub(crate) kind: Kind,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl ObjectId {
    pub(crate) fn of(kind: Kind, name: &ServiceName) -> Self {
        Self { kind, namespace: name.namespace.clone(), name: name.name.clone() }
    }

    pub(crate) fn service_name(&self) -> ServiceName {
        ServiceName { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(formatter, "{} {}", self.kind, self.name),
            namespace => write!(formatter, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Object {
    Service(Box<ServiceObject>),
    Slice(Box<SliceObject>),
    Endpoints(Box<[Subset]>),
    Pod(Box<Pod>),
    Node(Box<NodeObject>),
    /// That it exists is all that matters.
    Namespace,
}

#[derive(Debug)]
pub(crate) struct ServiceObject {
    /// As asked for until addresses and ports are allotted, then the very one that the snapshot holds.
    pub(crate) service: Arc<Service>,
    pub(crate) wish: Wish,
    pub(crate) selection: Option<Box<Selection>>,
    /// Another proxy's, by label `service.kubernetes.io/service-proxy-name`: it keeps its address but gets no rules.
    pub(crate) foreign: bool,
}

/// What a Service asks of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) headless: bool,
    /// The primary one, then the second. Neither for ExternalName.
    pub(crate) families: [Option<Family>; 2],
    pub(crate) wants_node_ports: bool,
    pub(crate) wants_health_port: bool,
    /// What it insists on, which most Services do not.
    pub(crate) demand: Option<Box<Demand>>,
}

impl Wish {
    pub(crate) fn families(&self) -> impl Iterator<Item = Family> {
        self.families.into_iter().flatten()
    }

    pub(crate) fn addresses(&self) -> &[IpAddr] {
        self.demand.as_ref().map_or(&[], |demand| &demand.addresses)
    }

    pub(crate) fn node_ports(&self) -> &[u16] {
        self.demand.as_ref().map_or(&[], |demand| &demand.node_ports)
    }

    pub(crate) fn health_port(&self) -> Option<u16> {
        self.demand.as_ref().and_then(|demand| demand.health_port)
    }
}

/// Explicit numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// ClusterIPs in the order of the families; those not given are picked.
    pub(crate) addresses: Box<[IpAddr]>,
    /// One for each port, 0 where none was given; empty when none was given at all.
    pub(crate) node_ports: Box<[u16]>,
    pub(crate) health_port: Option<u16>,
}

/// How a Service finds its endpoints among the Pods.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) selector: Box<[(Arc<str>, Box<str>)]>,
    /// One for each port of the Service.
    pub(crate) targets: Box<[Target]>,
    pub(crate) publish_not_ready: bool,
    pub(crate) distribution: Distribution,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Number(u16),
    Name(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    Anywhere,
    SameZone,
    SameNode,
}

#[derive(Debug)]
pub(crate) struct SliceObject {
    /// The name of its Service. `None` when the slice names none, or holds names instead of addresses: kept only to be known.
    pub(crate) service: Option<Arc<str>>,
    /// Label `service.kubernetes.io/headless`: of use to DNS only.
    pub(crate) headless: bool,
    /// A cluster's own controller made it, so that nothing need be made here.
    pub(crate) managed: bool,
    pub(crate) slice: Arc<Slice>,
}

/// A subset of hand-written Endpoints.
#[derive(Debug)]
pub(crate) struct Subset {
    pub(crate) ports: Box<[SlicePort]>,
    pub(crate) addresses: Box<[SubsetAddress]>,
}

#[derive(Debug)]
pub(crate) struct SubsetAddress {
    pub(crate) address: IpAddr,
    pub(crate) ready: bool,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) hostname: Option<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) labels: Box<[(Arc<str>, Arc<str>)]>,
    /// Empty when the pod has finished or has no address yet, so that it is nobody's endpoint.
    pub(crate) addresses: Box<[IpAddr]>,
    pub(crate) node: Arc<str>,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
    pub(crate) hostname: Option<Box<str>>,
    pub(crate) subdomain: Option<Box<str>>,
    pub(crate) ports: Box<[NamedPort]>,
    /// Whether its containers are told of the Services in its namespace.
    pub(crate) service_links: bool,
}

impl Pod {
    pub(crate) fn conditions(&self, publish_not_ready: bool) -> Conditions {
        let ready = publish_not_ready || (self.serving && !self.terminating);
        Conditions { ready, serving: self.serving, terminating: self.terminating }
    }
}

#[derive(Debug)]
pub(crate) struct NamedPort {
    pub(crate) name: Arc<str>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

#[derive(Debug)]
pub(crate) struct NodeObject {
    pub(crate) zone: Option<Arc<str>>,
    pub(crate) addresses: Box<[IpAddr]>,
    pub(crate) pod_ranges: Box<[IpNet]>,
}
