//! The objects of this mode: those of the rules, and the entries of the hooks' maps.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use portolan_model::{Family, Protocol};

use crate::nft;

/// An entry refers to entries that sort before it, and every entry to the rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Rule(nft::Key),
    /// An address of the node that serves node ports.
    Own(IpAddr),
    /// One endpoint of a pool that has no room in the entries of its frontends.
    Slot {
        family: Family,
        pool: PoolName,
        slot: u32,
    },
    /// An endpoint of a pool whose Service has session affinity or is one of UDP.
    Member {
        pool: PoolName,
        endpoint: SocketAddr,
    },
    Frontend(FrontendKey),
    /// An entry that this mode never writes.
    Foreign {
        map: MapName,
        key: Box<[u8]>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Rule(nft::Value),
    /// Whether it counts for sockets of the node alone: a loopback address.
    Own {
        node_only: bool,
    },
    Endpoint(SocketAddr),
    Member,
    Frontend(Box<Frontend>),
    Foreign(Box<[u8]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrontendKey {
    Vip(SocketAddr, Protocol),
    NodePort(Family, u16, Protocol),
    /// Every other port of the address.
    Address(IpAddr),
}

/// The maps that this mode writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapName {
    Own,
    Endpoints,
    Members,
    Frontends,
}

/// A pool is named after its Service port and its endpoints, so that another content has another name: a frontend changes from
/// one pool to the other in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(pub u64);

/// So many endpoints have room in the entry of their frontend, so that a hook needs one look-up.
pub(super) const SLOTS: usize = 4;

/// All that one decision needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontend {
    /// The pools and their sizes: cluster, local.
    pub pools: [(PoolName, u32); 2],
    /// The Service port, as a hash of its name.
    pub service: u64,
    /// In seconds; 0 is none.
    pub affinity: u32,
    /// For sockets of pods and of the node.
    pub routes: [Route; 2],
    /// The endpoints of both pools, one after the other, if there are at most four; else each is a [`Key::Slot`].
    pub slots: Vec<SocketAddr>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    Cluster,
    Local,
    Reject,
    /// To the rules.
    #[default]
    PassOn,
}

impl MapName {
    pub const ALL: [Self; 4] = [Self::Own, Self::Endpoints, Self::Members, Self::Frontends];

    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Endpoints => "endpoints",
            Self::Members => "members",
            Self::Frontends => "frontends",
        }
    }
}

impl Key {
    pub(super) fn family(&self) -> Family {
        match self {
            Self::Rule(key) => key.family(),
            Self::Own(address) | Self::Frontend(FrontendKey::Address(address)) => Family::of(*address),
            Self::Slot { family, .. } | Self::Frontend(FrontendKey::NodePort(family, ..)) => *family,
            Self::Member { endpoint, .. } => Family::of(endpoint.ip()),
            Self::Frontend(FrontendKey::Vip(address, _)) => Family::of(address.ip()),
            Self::Foreign { .. } => Family::V4,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(key) => write!(formatter, "{key}"),
            Self::Own(address) => write!(formatter, "entry own {address}"),
            Self::Slot { pool, slot, .. } => write!(formatter, "entry endpoints {pool} . {slot}"),
            Self::Member { pool, endpoint } => write!(formatter, "entry members {pool} . {endpoint}"),
            Self::Frontend(key) => write!(formatter, "entry frontends {key}"),
            Self::Foreign { map, key } => write!(formatter, "entry {} {key:02x?}", map.name()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(value) => write!(formatter, "{value}"),
            Self::Own { node_only: true } => formatter.write_str(" : node only"),
            Self::Own { .. } | Self::Member => Ok(()),
            Self::Endpoint(endpoint) => write!(formatter, " : {endpoint}"),
            Self::Frontend(frontend) => write!(formatter, " : {frontend}"),
            Self::Foreign(value) => write!(formatter, " : {value:02x?}"),
        }
    }
}

impl fmt::Display for FrontendKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vip(address, protocol) => write!(formatter, "{address}/{protocol}"),
            Self::NodePort(Family::V4, port, protocol) => write!(formatter, "0.0.0.0:{port}/{protocol}"),
            Self::NodePort(Family::V6, port, protocol) => write!(formatter, "[::]:{port}/{protocol}"),
            Self::Address(address) => write!(formatter, "{address}"),
        }
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [pod, node] = self.routes.map(|route| Target { route, frontend: self });
        write!(formatter, "pods {pod}, node {node}")?;
        if self.affinity > 0 {
            write!(formatter, ", affinity {}s", self.affinity)?;
        }
        for (position, endpoint) in self.slots.iter().enumerate() {
            write!(formatter, "{}{endpoint}", if position == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// Where one route leads.
struct Target<'a> {
    route: Route,
    frontend: &'a Frontend,
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cluster, local] = self.frontend.pools;
        match self.route {
            Route::Cluster => write!(formatter, "one of {} in {}", cluster.1, cluster.0),
            Route::Local => write!(formatter, "one of {} in {}", local.1, local.0),
            Route::Reject => formatter.write_str("reject"),
            Route::PassOn => formatter.write_str("pass on"),
        }
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}
