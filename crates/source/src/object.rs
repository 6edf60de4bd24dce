//! What is kept of each object of a manifest: its part of the snapshot, and what the control plane's part needs beside it.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use portolan_model::{Conditions, Family, Protocol, Service, ServiceName, Slice, SlicePort, Weight, compare_shared};

/// The order is that of the store, in which the objects of one kind and namespace are adjacent.
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

/// Kind and name. The namespace of a Node or a Namespace is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        let in_kind = || compare_shared(&self.namespace, &other.namespace).then_with(|| self.name.cmp(&other.name));
        self.kind.cmp(&other.kind).then_with(in_kind)
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
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
    /// Only its existence matters.
    Namespace,
}

#[derive(Debug)]
pub(crate) struct ServiceObject {
    /// Without addresses and node ports until they are allocated; then the same `Arc` as in the snapshot.
    pub(crate) service: Arc<Service>,
    pub(crate) request: AddressRequest,
    pub(crate) selection: Option<Box<Selection>>,
    /// Served by another proxy (label `service.kubernetes.io/service-proxy-name`): it has an address but no rules.
    pub(crate) foreign: bool,
}

/// What a Service requests of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressRequest {
    pub(crate) headless: bool,
    /// The primary one, then the secondary one. Neither for ExternalName.
    pub(crate) families: [Option<Family>; 2],
    pub(crate) needs_node_ports: bool,
    pub(crate) needs_health_port: bool,
    /// Most Services have none.
    pub(crate) explicit: Option<Box<Explicit>>,
}

impl AddressRequest {
    pub(crate) fn families(&self) -> impl Iterator<Item = Family> {
        self.families.into_iter().flatten()
    }

    pub(crate) fn addresses(&self) -> &[IpAddr] {
        self.explicit.as_ref().map_or(&[], |explicit| &explicit.addresses)
    }

    pub(crate) fn node_ports(&self) -> &[u16] {
        self.explicit.as_ref().map_or(&[], |explicit| &explicit.node_ports)
    }

    pub(crate) fn health_port(&self) -> Option<u16> {
        self.explicit.as_ref().and_then(|explicit| explicit.health_port)
    }
}

/// Addresses and ports that the manifest names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explicit {
    /// ClusterIPs in the order of the families; the others are picked.
    pub(crate) addresses: Box<[IpAddr]>,
    /// One for each port, 0 where none is given; empty where none is given at all.
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
    /// `None` for a slice that names no Service or holds host names: it has no effect.
    pub(crate) service: Option<Arc<str>>,
    /// Label `service.kubernetes.io/headless`: used by DNS only.
    pub(crate) headless: bool,
    /// Made by a controller of a cluster: the Service has all its slices already.
    pub(crate) managed: bool,
    pub(crate) slice: Arc<Slice>,
}

/// A subset of Endpoints.
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
    pub(crate) pod: Option<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) labels: Box<[(Arc<str>, Arc<str>)]>,
    /// Empty for a Pod that has finished or has no address yet: it is no endpoint.
    pub(crate) addresses: Box<[IpAddr]>,
    pub(crate) node: Arc<str>,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
    pub(crate) hostname: Option<Box<str>>,
    pub(crate) subdomain: Option<Box<str>>,
    pub(crate) ports: Box<[NamedPort]>,
    pub(crate) weight: Weight,
    /// Whether its containers get environment variables for the Services of its namespace.
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
