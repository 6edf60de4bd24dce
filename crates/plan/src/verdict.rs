//! What happens to a new connection, and why.

use std::fmt;

/// The origin of a packet, which is all that the route of a frontend may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A pod, according to the configured detector.
    Pod,
    /// The node itself: the source is one of its own addresses.
    Node,
    Outside,
}

impl Origin {
    pub const ALL: [Self; 3] = [Self::Pod, Self::Node, Self::Outside];
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pod => "a pod",
            Self::Node => "the node itself",
            Self::Outside => "outside",
        })
    }
}

/// One route for each origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Routes {
    pub pod: Route,
    pub node: Route,
    pub outside: Route,
}

impl Routes {
    pub fn same(route: Route) -> Self {
        Self { pod: route, node: route, outside: route }
    }

    /// Whether the traffic of any origin goes to this pool.
    pub fn use_pool(&self, pool: Pool) -> bool {
        [self.pod, self.node, self.outside].iter().any(|route| route.verdict == Verdict::Forward(pool))
    }

    pub fn from(&self, origin: Origin) -> Route {
        match origin {
            Origin::Pod => self.pod,
            Origin::Node => self.node,
            Origin::Outside => self.outside,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    pub verdict: Verdict,
    /// Whether the source address is rewritten to an address of the node.
    pub masquerade: bool,
}

impl Route {
    /// Refused traffic needs no masquerade.
    pub fn new(verdict: Verdict, masquerade: bool) -> Self {
        Self { verdict, masquerade: masquerade && matches!(verdict, Verdict::Forward(_)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// To one endpoint of this pool, with equal probability.
    Forward(Pool),
    Refuse(Refusal),
}

/// A Service has two pools of endpoints; the traffic policy and the origin select one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// All usable endpoints of the cluster, narrowed by topology.
    Cluster,
    /// The usable endpoints of this node.
    Local,
}

impl fmt::Display for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cluster => "cluster",
            Self::Local => "local",
        })
    }
}

/// A refusal carries its reason; the reason decides between reject (the client gets an error at once) and drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    Reject(Reason),
    Drop(Reason),
}

impl Refusal {
    /// The reasons that exist in every mode; userspace mode has one more.
    pub const ALL: [Self; 5] = [
        Self::Reject(Reason::NoEndpoints),
        Self::Reject(Reason::UnknownPort),
        Self::Drop(Reason::NoLocalEndpoints),
        Self::Drop(Reason::SourceNotAllowed),
        Self::Drop(Reason::UnallocatedAddress),
    ];

    pub fn reason(self) -> Reason {
        match self {
            Self::Reject(reason) | Self::Drop(reason) => reason,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reject(reason) => write!(formatter, "reject {reason}"),
            Self::Drop(reason) => write!(formatter, "drop {reason}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The Service has no usable endpoint anywhere.
    NoEndpoints,
    /// The policy is Local and this node has no usable endpoint, though other nodes have some.
    NoLocalEndpoints,
    /// The client is not in `loadBalancerSourceRanges`.
    SourceNotAllowed,
    /// The address is used by Services alone, and none has this port on it.
    UnknownPort,
    /// The address is in the service range, but no Service has it.
    UnallocatedAddress,
    /// The mode does not support this protocol.
    UnsupportedProtocol,
}

impl Reason {
    pub const ALL: [Self; 6] = [
        Self::NoEndpoints,
        Self::NoLocalEndpoints,
        Self::SourceNotAllowed,
        Self::UnknownPort,
        Self::UnallocatedAddress,
        Self::UnsupportedProtocol,
    ];

    /// An explanation for the operator.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NoEndpoints => "no endpoint of the Service is ready, nor terminating and still serving",
            Self::NoLocalEndpoints => "the traffic policy is Local and no usable endpoint runs on this node",
            Self::SourceNotAllowed => "the client's address is in none of spec.loadBalancerSourceRanges",
            Self::UnknownPort => "the address belongs to Services alone, and they have no such port and protocol",
            Self::UnallocatedAddress => "the address is in the service range, but no Service has it",
            Self::UnsupportedProtocol => "userspace mode carries TCP and UDP only; other modes serve SCTP",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoEndpoints => "no-endpoints",
            Self::NoLocalEndpoints => "no-local-endpoints",
            Self::SourceNotAllowed => "source-not-allowed",
            Self::UnknownPort => "unknown-port",
            Self::UnallocatedAddress => "unallocated-address",
            Self::UnsupportedProtocol => "unsupported-protocol",
        })
    }
}
