//! The node that the daemon runs on.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Arc<str>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// The Node object's addresses, internal before external; the first of a family is the primary one.
    pub addresses: Box<[IpAddr]>,
    pub pod_ranges: Box<[IpNet]>,
    /// Every address that the machine's interfaces hold, loopback included.
    pub interface_addresses: Box<[IpAddr]>,
}

impl Node {
    /// Whether packets from or to this address start or end on the node itself.
    pub fn owns(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address) || self.interface_addresses.contains(&address)
    }
}
