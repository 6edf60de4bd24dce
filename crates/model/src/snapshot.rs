//! Everything known at one moment.

use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;

use crate::{Node, Service, ServiceName, Slices};

/// A value that is cheap to clone. Whoever changes a Service puts a new `Arc` in its place and leaves all others as
/// they are, so that readers find what changed without looking at what did not.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub node: Arc<Node>,
    pub services: OrdMap<ServiceName, Arc<Service>>,
    pub slices: OrdMap<ServiceName, Arc<Slices>>,
    /// The ranges that ClusterIPs come from.
    pub service_ranges: Arc<[IpNet]>,
    /// Services that another proxy serves: they have names, but get no rules.
    pub foreign: OrdMap<ServiceName, Arc<Service>>,
    /// Namespaces that are known to exist, be there a Service in them or not.
    pub namespaces: OrdSet<Arc<str>>,
    /// The addresses of pods, each with the namespace of its pod, where pods are known at all.
    pub pods: OrdSet<(IpAddr, Arc<str>)>,
}
