//! The state of the cluster at one moment.

use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;

use crate::{Node, Observed, PodName, Service, ServiceName, Slices};

/// A value that is cheap to clone. Changing a Service replaces its `Arc` and leaves all others in place, so that
/// readers find the changes without comparing the rest.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub node: Arc<Node>,
    pub services: OrdMap<ServiceName, Arc<Service>>,
    pub slices: OrdMap<ServiceName, Arc<Slices>>,
    /// What this node observed about endpoints of Services that want it to.
    pub observed: OrdMap<ServiceName, Arc<Observed>>,
    /// The ranges that ClusterIPs come from.
    pub service_ranges: Arc<[IpNet]>,
    /// Services that another proxy serves: they have names, but get no rules.
    pub foreign: OrdMap<ServiceName, Arc<Service>>,
    /// Known namespaces, including those without a Service.
    pub namespaces: OrdSet<Arc<str>>,
    /// Pod addresses with the namespace of each pod, if pods are watched.
    pub pods: OrdSet<(IpAddr, Arc<str>)>,
    /// Addresses of Pods by name, if pods are watched.
    pub pods_by_name: OrdMap<PodName, Arc<[IpAddr]>>,
    /// Addresses of all Nodes by name, where more than this Node is known.
    pub nodes: OrdMap<Arc<str>, Arc<[IpAddr]>>,
}
