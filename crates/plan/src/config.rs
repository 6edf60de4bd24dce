//! What the operator configured about traffic.

use std::sync::Arc;

use portolan_model::IpNet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanConfig {
    pub detect_local: DetectLocal,
    /// Rewrite the source of everything that is sent to a ClusterIP.
    pub masquerade_all: bool,
    /// Where node ports are served; empty means everywhere.
    pub node_port_addresses: Vec<AddressSelector>,
    /// Whether node ports answer at 127.0.0.1 as well, where the addresses above include it.
    pub loopback_node_ports: bool,
    /// Whether `spec.externalIPs` gets rules (feature gate AllowServiceExternalIPs).
    pub allow_external_ips: bool,
    /// Whether connections end on this node and are carried on from here by the daemon (userspace mode).
    pub relayed: bool,
    /// Whether addresses are served by virtual servers of the node (ipvs): every address of a Service is one of the
    /// node's own, and has one pool for all who ask.
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

/// How to tell traffic of a pod from other traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectLocal {
    /// By source address, in the given pod ranges of the whole cluster; the first of each family counts.
    ClusterRange(Vec<IpNet>),
    /// By source address, in the Node object's own pod ranges.
    NodeRange,
    /// By the bridge that it arrives on.
    BridgeInterface(Arc<str>),
    /// By the first letters of the interface that it arrives on.
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
