//! The objects of this mode: endpoints that HNS must have for other nodes' pods, and load balancers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use portolan_hns::{Guid, balancer_flags, mapping_flags};
use portolan_model::{Family, Protocol};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An endpoint of ours. Those of this node's pods belong to the CNI plugin.
    Endpoint(IpAddr),
    Balancer(Front),
    /// A load balancer that leads probes of a load-balancer IP to the node itself. The ports of a Service share it.
    HealthCheck(Front),
    /// A proxy's object that no plan has: a second one for the same address or front end.
    Stray(Stray),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Endpoint(Role),
    Balancer(Balancer),
    Stray,
}

/// What an endpoint of ours is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A pod of another node, or an address outside of the cluster.
    Remote,
    /// A ClusterIP, which an overlay must know to route it.
    ServiceAddress,
    /// The address that load balancers of an overlay use as their source.
    SourceAddress,
    /// In HNS only: the right address with the wrong content.
    Other(Arc<str>),
}

/// What clients connect to. HNS has at most one load balancer for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Front {
    pub family: Family,
    pub protocol: Protocol,
    /// `None` is every address of the node.
    pub address: Option<IpAddr>,
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// Sorted, each once.
    pub targets: Box<[Target]>,
    pub target_port: u16,
    pub distribution: Distribution,
    /// Bits of [`balancer_flags`].
    pub flags: u32,
    /// Bits of [`mapping_flags`].
    pub mapping_flags: u32,
    pub source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Address(IpAddr),
    /// The endpoint of this name, which leads to the node itself.
    Named(Arc<str>),
    /// In HNS only: an endpoint that does not exist, or that another one has replaced.
    Unknown(Guid),
}

/// How HNS picks an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    Connection,
    /// Connections of one client go to one endpoint.
    Client,
}

/// The address that endpoints see where the source is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// What network, endpoints and settings lead to.
    Standard,
    /// In HNS only.
    Other(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    pub family: Family,
    pub is_balancer: bool,
    pub id: Guid,
}

impl Key {
    pub(super) fn family(&self) -> Family {
        match self {
            Self::Endpoint(address) => Family::of(*address),
            Self::Balancer(front) | Self::HealthCheck(front) => front.family,
            Self::Stray(stray) => stray.family,
        }
    }
}

impl Balancer {
    /// The key of a load balancer with this content.
    pub(super) fn key(&self, front: Front) -> Key {
        let is_named = |target: &Target| matches!(target, Target::Named(_));
        if self.targets.iter().any(is_named) { Key::HealthCheck(front) } else { Key::Balancer(front) }
    }

    pub(super) fn keeps_source(&self) -> bool {
        self.flags & balancer_flags::DSR != 0
    }

    fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let own = [(balancer_flags::DSR, "DSR"), (balancer_flags::IPV6, "IPv6")];
        let of_mapping = [
            (mapping_flags::LOCAL_ROUTED_VIP, "LocalRoutedVIP"),
            (mapping_flags::USE_MUX, "UseMux"),
            (mapping_flags::PRESERVE_DIP, "PreserveDIP"),
            (mapping_flags::VIP_EXTERNAL_IP, "VipExternalIP"),
        ];
        let (flags, mapping) = (self.flags, self.mapping_flags);
        let own = own.into_iter().filter(move |(bit, _)| flags & bit != 0);
        own.chain(of_mapping.into_iter().filter(move |(bit, _)| mapping & bit != 0)).map(|(_, name)| name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(address) => write!(formatter, "endpoint {address}"),
            Self::Balancer(front) => write!(formatter, "load balancer {front}"),
            Self::HealthCheck(front) => write!(formatter, "load balancer {front} of health checks"),
            Self::Stray(Stray { is_balancer: true, id, .. }) => write!(formatter, "load balancer {id}"),
            Self::Stray(stray) => write!(formatter, "endpoint {}", stray.id),
        }
    }
}

impl fmt::Display for Front {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.family) {
            (Some(address), _) => write!(formatter, "{}/{}", SocketAddr::new(address, self.port), self.protocol),
            (None, Family::V4) => write!(formatter, "*:{}/{}", self.port, self.protocol),
            (None, Family::V6) => write!(formatter, "[*]:{}/{}", self.port, self.protocol),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(role) => write!(formatter, " {role}"),
            Self::Balancer(balancer) => write!(formatter, "{balancer}"),
            Self::Stray => formatter.write_str(" surplus"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote => formatter.write_str("remote"),
            Self::ServiceAddress => formatter.write_str("of a Service"),
            Self::SourceAddress => formatter.write_str("for the source of load balancers"),
            Self::Other(what) => write!(formatter, "with {what}"),
        }
    }
}

/// One endpoint per line, indented like rules.
impl fmt::Display for Balancer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, " by {}", if self.distribution == Distribution::Client { "client" } else { "connection" })?;
        self.flag_names().try_for_each(|name| write!(formatter, " {name}"))?;
        if let Source::Other(address) = &self.source {
            write!(formatter, " from {address:?}")?;
        }
        for target in &self.targets {
            match target {
                Target::Address(address) => {
                    write!(formatter, "\n    to {}", SocketAddr::new(*address, self.target_port))?;
                }
                Target::Named(name) => write!(formatter, "\n    to {name} port {}", self.target_port)?,
                Target::Unknown(id) => write!(formatter, "\n    to the unknown endpoint {id}")?,
            }
        }
        Ok(())
    }
}
