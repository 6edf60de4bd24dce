//! The kernel objects of this mode: iptables rules, IP sets and their entries, virtual servers with their destinations,
//! and the addresses on the device.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use portolan_kernel::ipset::{Entry, SetType};
use portolan_kernel::ipvs::{Scheduling, ServerAddress};
use portolan_model::Protocol;

use super::sets::SetName;
use crate::tables;

/// In the order of creation: each kind refers only to those before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Set(SetName),
    Rules(tables::Key),
    Entry(SetName, Entry),
    Server(Server),
    Destination(Server, SocketAddr),
    /// The device that holds the addresses.
    Device,
    Address(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Rules(tables::Value),
    Set(SetType),
    Scheduling(Scheduling),
    Weight(u32),
    Present,
}

/// A virtual server: an address and port that clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    pub address: SocketAddr,
    pub protocol: Protocol,
}

const NUMBERS: [(Protocol, u8); 3] = [(Protocol::Tcp, 6), (Protocol::Udp, 17), (Protocol::Sctp, 132)];

impl Server {
    pub(super) fn in_kernel(self) -> ServerAddress {
        let number = NUMBERS.iter().find(|(protocol, _)| *protocol == self.protocol).map_or(0, |(_, number)| *number);
        ServerAddress { address: self.address, protocol: number }
    }

    /// `None` for a protocol that Services do not have.
    pub(crate) fn from_kernel(server: ServerAddress) -> Option<Self> {
        let known = NUMBERS.iter().find(|(_, number)| *number == server.protocol);
        known.map(|(protocol, _)| Self { address: server.address, protocol: *protocol })
    }
}

/// No destination comes before it.
const FIRST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The destinations of one server, among all objects.
pub(super) fn destinations(
    objects: &BTreeMap<Key, Value>,
    server: Server,
) -> impl Iterator<Item = (SocketAddr, &Value)> {
    objects.range(Key::Destination(server, FIRST)..).map_while(move |(key, value)| match key {
        Key::Destination(of, endpoint) if *of == server => Some((*endpoint, value)),
        _ => None,
    })
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.protocol.to_string().to_uppercase(), self.address)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(name) => write!(formatter, "set {name}"),
            Self::Rules(key) => write!(formatter, "{key}"),
            Self::Entry(name, entry) => write!(formatter, "entry {name} {entry}"),
            Self::Server(server) => write!(formatter, "server {server}"),
            Self::Destination(server, endpoint) => write!(formatter, "destination {server} -> {endpoint}"),
            Self::Device => write!(formatter, "device {}", super::DEVICE),
            Self::Address(address) => write!(formatter, "address {address}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(value) => write!(formatter, "{value}"),
            Self::Set(kind) => write!(formatter, " {kind}"),
            Self::Scheduling(scheduling) => {
                write!(formatter, " {}", scheduling.scheduler)?;
                scheduling.persistence.map_or(Ok(()), |seconds| write!(formatter, " persistent {seconds}"))
            }
            Self::Weight(weight) => write!(formatter, " Masq {weight}"),
            Self::Present => Ok(()),
        }
    }
}
