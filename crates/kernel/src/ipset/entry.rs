//! What can be in a set, and how `ipset` prints it.

use std::fmt;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetProtocol {
    Tcp,
    Udp,
    Sctp,
}

impl SetProtocol {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp].into_iter().find(|protocol| protocol.number() == number)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    Ip(IpAddr),
    Port(u16),
    IpPort(IpAddr, SetProtocol, u16),
    IpPortIp(IpAddr, SetProtocol, u16, IpAddr),
    /// The network has a prefix length of at least 1: sets cannot hold "everything".
    IpPortNet(IpAddr, SetProtocol, u16, IpAddr, u8),
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ip(address) => write!(formatter, "{address}"),
            Self::Port(port) => write!(formatter, "{port}"),
            Self::IpPort(address, protocol, port) => write!(formatter, "{address},{}:{port}", protocol.name()),
            Self::IpPortIp(address, protocol, port, other) => {
                write!(formatter, "{address},{}:{port},{other}", protocol.name())
            }
            Self::IpPortNet(address, protocol, port, network, length) => {
                let is_host = u32::from(length) == if network.is_ipv4() { 32 } else { 128 };
                write!(formatter, "{address},{}:{port},{network}", protocol.name())?;
                if is_host { Ok(()) } else { write!(formatter, "/{length}") }
            }
        }
    }
}
