//! The entries of a set, in the format of `ipset`.

use std::fmt;
use std::net::IpAddr;

use portolan_model::Protocol;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    Ip(IpAddr),
    Port(u16),
    IpPort(IpAddr, Protocol, u16),
    IpPortIp(IpAddr, Protocol, u16, IpAddr),
    /// The prefix length of the network is at least 1: sets cannot hold "everything".
    IpPortNet(IpAddr, Protocol, u16, IpAddr, u8),
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ip(address) => write!(formatter, "{address}"),
            Self::Port(port) => write!(formatter, "{port}"),
            Self::IpPort(address, protocol, port) => write!(formatter, "{address},{protocol}:{port}"),
            Self::IpPortIp(address, protocol, port, other) => {
                write!(formatter, "{address},{protocol}:{port},{other}")
            }
            Self::IpPortNet(address, protocol, port, network, length) => {
                let is_host = u32::from(length) == if network.is_ipv4() { 32 } else { 128 };
                write!(formatter, "{address},{protocol}:{port},{network}")?;
                if is_host { Ok(()) } else { write!(formatter, "/{length}") }
            }
        }
    }
}
