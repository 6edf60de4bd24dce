//! The plan of one Service port in one address family.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use portolan_model::{Family, IpNet, Protocol, ServiceName, ServicePortName};

use crate::balance::Balance;
use crate::connect::AtConnect;
use crate::endpoint::Endpoint;
use crate::open_connections::OpenConnections;
use crate::verdict::{Pool, Routes};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePlan {
    pub key: PortKey,
    pub frontends: Box<[Frontend]>,
    /// Frontends that another Service holds.
    pub conflicts: Box<[Conflict]>,
    /// With virtual servers: addresses of the node where another Service has the node port's number, and takes
    /// precedence.
    pub taken_addresses: Box<[IpAddr]>,
    /// The slots of the two pools. Each gets the same share of new connections: an endpoint has one, or several in proportion to
    /// its weight. They are in the order in which [`Balance::selection`] finds them.
    pub cluster: Box<[Endpoint]>,
    pub local: Box<[Endpoint]>,
    /// Endpoints that get no new connections but still serve existing ones.
    pub draining: Box<[Endpoint]>,
    /// Those of them that get none because they do not answer.
    pub quarantined: Box<[Endpoint]>,
    pub balance: Balance,
    pub open_connections: OpenConnections,
    pub affinity_seconds: Option<u32>,
    /// The IPVS scheduler, if the Service sets one.
    pub scheduler: Option<Arc<str>>,
    /// What reaches this node through a load balancer keeps the address of that load balancer as its destination, where a mode can
    /// do so.
    pub preserve_destination: bool,
    /// Load balancers probe this port of the node for the health of the Service.
    pub health_check_port: Option<u16>,
    /// The port at load-balancer IPs whose probes are led to the node, in a mode that does so.
    pub forwarded_health_port: Option<u16>,
}

/// One port of one Service in one family.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    pub name: Arc<ServicePortName>,
    pub family: Family,
}

impl PortKey {
    /// The least key that a Service can have, to start a range from.
    pub(crate) fn first_of(service: &ServiceName) -> Self {
        let name = ServicePortName { service: service.clone(), port: Arc::default(), protocol: Protocol::Tcp };
        Self { name: Arc::new(name), family: Family::V4 }
    }
}

impl fmt::Display for PortKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.name)
    }
}

/// An address that clients connect to, and the routes behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    pub address: FrontendAddress,
    pub kind: FrontendKind,
    /// Only these sources are allowed; `None` allows all.
    pub sources: Option<Box<[IpNet]>>,
    pub routes: Routes,
    /// What hooks decide, in a mode that has them.
    pub at_connect: AtConnect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrontendAddress {
    Vip(IpAddr, u16),
    /// This port on every node address that serves node ports.
    NodePort(u16),
}

impl fmt::Display for FrontendAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Vip(address, port) => write!(formatter, "{}", SocketAddr::new(address, port)),
            Self::NodePort(port) => write!(formatter, "*:{port}"),
        }
    }
}

/// Why a frontend exists. Of two Services that claim the same address and port, the kind that comes first here wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrontendKind {
    ClusterIp,
    LoadBalancerIp,
    ExternalIp,
    NodePort,
}

impl FrontendKind {
    /// Whether the address is used by Services alone, so that its other ports are refused.
    pub fn owns_address(self) -> bool {
        self == Self::ClusterIp
    }

    /// The field of the Service that requests it.
    pub fn field(self) -> &'static str {
        match self {
            Self::ClusterIp => "spec.clusterIPs",
            Self::LoadBalancerIp => "status.loadBalancer.ingress",
            Self::ExternalIp => "spec.externalIPs",
            Self::NodePort => "spec.ports[].nodePort",
        }
    }
}

impl fmt::Display for FrontendKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ClusterIp => "ClusterIP",
            Self::LoadBalancerIp => "load-balancer IP",
            Self::ExternalIp => "external IP",
            Self::NodePort => "node port",
        })
    }
}

/// A frontend that this Service claims and another one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub address: FrontendAddress,
    pub kind: FrontendKind,
    pub holder: PortKey,
}

/// Whether shares are the same, but for slots of a large pool that cannot be divided.
pub(crate) fn is_even(shares: impl Iterator<Item = f64> + Clone) -> bool {
    let least = shares.clone().fold(f64::INFINITY, f64::min);
    shares.fold(0.0, f64::max) < least * UNEVEN
}

const UNEVEN: f64 = 1.02;

impl ServicePlan {
    /// A port without frontends and endpoints.
    pub fn empty(key: PortKey) -> Self {
        Self {
            key,
            frontends: [].into(),
            conflicts: [].into(),
            taken_addresses: [].into(),
            cluster: [].into(),
            local: [].into(),
            draining: [].into(),
            quarantined: [].into(),
            balance: Balance::default(),
            open_connections: OpenConnections::default(),
            affinity_seconds: None,
            scheduler: None,
            preserve_destination: false,
            health_check_port: None,
            forwarded_health_port: None,
        }
    }

    /// Where load balancers outside of the cluster probe their own address, and reach the node itself. Where the Service has that port,
    /// its clients come first.
    pub fn forwarded_probes(&self) -> impl Iterator<Item = (IpAddr, u16)> {
        let of_balancer = |frontend: &&Frontend| frontend.kind == FrontendKind::LoadBalancerIp;
        let probed = self.forwarded_health_port.into_iter();
        probed.flat_map(move |port| {
            self.frontends.iter().filter(of_balancer).filter_map(move |frontend| match frontend.address {
                FrontendAddress::Vip(address, own) if own != port => Some((address, port)),
                _ => None,
            })
        })
    }

    pub fn pool(&self, pool: Pool) -> &[Endpoint] {
        match pool {
            Pool::Cluster => &self.cluster,
            Pool::Local => &self.local,
        }
    }

    /// The endpoints of a pool as texts, each once, with their shares if these are not the same.
    pub fn shares(&self, pool: Pool) -> Vec<String> {
        let (slots, each) = (self.pool(pool).len() as f64, self.weighted(pool));
        let is_even = is_even(each.iter().map(|(_, count)| f64::from(*count) / slots));
        let text = |(endpoint, count): &(Endpoint, u32)| match is_even {
            true => endpoint.socket().to_string(),
            false => format!("{} {:.1}%", endpoint.socket(), f64::from(*count) / slots * 100.0),
        };
        each.iter().map(text).collect()
    }

    /// The endpoints of a pool by address, each once, with the number of its slots.
    pub fn weighted(&self, pool: Pool) -> Vec<(Endpoint, u32)> {
        let mut slots = self.pool(pool).to_vec();
        slots.sort_unstable();
        slots.chunk_by(|one, next| one == next).map(|same| (same[0], same.len() as u32)).collect()
    }

    pub(crate) fn n_endpoints(&self) -> usize {
        self.cluster.len().max(self.local.len())
    }

    pub fn protocol(&self) -> Protocol {
        self.key.name.protocol
    }

    /// Every endpoint that still serves, with or without new connections.
    pub fn serving(&self) -> impl Iterator<Item = Endpoint> {
        self.cluster.iter().chain(&self.local).chain(&self.draining).copied()
    }
}
