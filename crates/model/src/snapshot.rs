//! Everything known at one moment.

use std::sync::Arc;

use imbl::OrdMap;
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
}
