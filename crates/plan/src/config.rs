//! The traffic settings of the operator.

use std::sync::Arc;

use portolan_model::IpNet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanConfig {
    pub detect_local: DetectLocal,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// The addresses that serve node ports; empty means all.
    pub node_port_addresses: Vec<AddressSelector>,
    /// Whether node ports are also served on 127.0.0.1, if the addresses above include it.
    pub loopback_node_ports: bool,
    /// Whether `spec.externalIPs` gets rules (feature gate AllowServiceExternalIPs).
    pub allow_external_ips: bool,
    /// Whether the daemon terminates connections on this node and opens new ones to the endpoints (userspace mode).
    pub relayed: bool,
    /// Whether Service addresses are virtual servers of the node (ipvs mode): every Service address is local to the
    /// node, and has one pool for all clients.
    pub virtual_servers: bool,
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self {
            detect_local: DetectLocal::ClusterRange(Vec::new()),
            masquerade_all: false,
            node_port_addresses: vec![AddressSelector::Primary],
            loopback_node_ports: false,
            allow_external_ips: true,
            relayed: false,
            virtual_servers: false,
        }
    }
}

/// How to recognize traffic that comes from a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectLocal {
    /// By source address, in the pod ranges of the cluster; the first range of each family counts.
    ClusterRange(Vec<IpNet>),
    /// By source address, in the pod ranges of the Node object.
    NodeRange,
    /// By the bridge that the packet arrives on.
    BridgeInterface(Arc<str>),
    /// By the name prefix of the interface that the packet arrives on.
    InterfacePrefix(Arc<str>),
}

/// One entry of `--nodeport-addresses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressSelector {
    /// The node's own primary addresses.
    Primary,
    Localhost,
    All,
    Range(IpNet),
}
