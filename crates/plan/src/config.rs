//! The traffic settings of the operator.

use std::fmt;
use std::sync::Arc;

use portolan_model::{Algorithm, Balancing, IpNet};

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
    /// How Services are balanced that do not say so themselves.
    pub balancing: Balancing,
    /// What the active mode cannot do.
    pub limits: Limits,
}

/// What a mode cannot do, so that the plan decides around it. The default is a mode without limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The daemon terminates each connection and opens another one to the endpoint: endpoints see the node as their
    /// client, and SCTP is not served.
    pub relayed: bool,
    /// Each address of a Service is bound to the node and has one pool, whatever the origin of a packet. Node ports do
    /// not answer at 127.0.0.1.
    pub virtual_servers: bool,
    /// Hooks translate the destination of a socket when it connects: its source is kept, and its owner, a pod or the node, is
    /// known. The rules serve everything else.
    pub at_connect: bool,
    /// The hooks leave sockets of pods to the rules, too.
    pub only_node_at_connect: bool,
    /// Each frontend is a load balancer of a virtual switch.
    pub load_balancers: Option<LoadBalancers>,
    pub lacks: Lacks,
}

/// Algorithms that the mode does not have. A function, because the kernel may have to be asked, which takes longer than the start
/// of a small node: it is called when a Service asks for an algorithm.
#[derive(Clone, Copy)]
pub struct Lacks(pub fn() -> &'static [Algorithm]);

impl Lacks {
    pub fn contains(self, algorithm: Algorithm) -> bool {
        (self.0)().contains(&algorithm)
    }
}

impl Default for Lacks {
    fn default() -> Self {
        Self(|| &[])
    }
}

impl fmt::Debug for Lacks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)().fmt(formatter)
    }
}

/// Every sync compares, and does not call the function if it is the same.
impl PartialEq for Lacks {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0) || (self.0)() == (other.0)()
    }
}

impl Eq for Lacks {}

/// A load balancer of a virtual switch has one pool, whatever the origin of a packet, with one target port and the same share for
/// each endpoint. It refuses nothing: a frontend without usable endpoints has no load balancer, and its packets pass. Node ports
/// answer at every address of the node but 127.0.0.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancers {
    /// Traffic to ClusterIPs keeps its source, because replies go to the client directly. Without this, endpoints see an address
    /// of the node.
    pub direct_return: bool,
    /// Probes at load-balancer IPs are led to the node itself: for Services without a port of their own, to this one.
    pub forwarded_health_port: Option<u16>,
}

impl Limits {
    /// The kernel's virtual servers and the relay choose by open connections themselves.
    pub fn counts_connections(&self) -> bool {
        self.relayed || self.virtual_servers
    }
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self {
            detect_local: DetectLocal::ClusterRange(Vec::new()),
            masquerade_all: false,
            node_port_addresses: vec![AddressSelector::Primary],
            loopback_node_ports: false,
            allow_external_ips: true,
            balancing: Balancing::default(),
            limits: Limits::default(),
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
