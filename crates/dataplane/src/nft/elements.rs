//! Keys of elements, as values and as the kernel's bytes.

use std::fmt;
use std::net::IpAddr;

use portolan_model::{Family, IpNet, Protocol};
use portolan_plan::FrontendAddress;

use super::bytes::{Bytes, Reader};
use super::dispatch_key::DispatchKey;
use super::sets::SetName;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ElementKey {
    Frontend(IpAddr, u16, Protocol),
    NodePort(u16, Protocol),
    Slot(IpAddr, u16, Protocol, u32),
    NodePortSlot(u16, Protocol, u32),
    DispatchKey(DispatchKey),
    Address(IpAddr),
    /// The same address as source and as destination.
    Hairpin(IpAddr),
    /// An endpoint and the number of its pool.
    Member(IpAddr, u16, u32),
    /// Boxed because it is long and rare.
    Source(Box<SourceKey>),
    /// A foreign key, in a form that Portolan never writes.
    Foreign(Box<ForeignKey>),
}

/// The bytes of a key, with those of the end of its range, if it is one.
type ForeignKey = (Vec<u8>, Option<Vec<u8>>);

/// A frontend and a range of sources that may use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    pub address: IpAddr,
    pub port: u16,
    pub protocol: Protocol,
    pub range: IpNet,
}

impl ElementKey {
    pub(super) fn frontend(address: FrontendAddress, protocol: Protocol) -> Self {
        match address {
            FrontendAddress::Vip(address, port) => Self::Frontend(address, port, protocol),
            FrontendAddress::NodePort(port) => Self::NodePort(port, protocol),
        }
    }

    pub(super) fn slot(address: FrontendAddress, protocol: Protocol, slot: u32) -> Self {
        match address {
            FrontendAddress::Vip(address, port) => Self::Slot(address, port, protocol, slot),
            FrontendAddress::NodePort(port) => Self::NodePortSlot(port, protocol, slot),
        }
    }

    /// The key of a place in a pool of the frontend that this is the key of.
    pub(super) fn slot_of_frontend(&self, slot: u32) -> Option<Self> {
        match self {
            Self::Frontend(address, port, protocol) => Some(Self::Slot(*address, *port, *protocol, slot)),
            Self::NodePort(port, protocol) => Some(Self::NodePortSlot(*port, *protocol, slot)),
            _ => None,
        }
    }

    /// The kernel's bytes, with those of the last key where the element is a range.
    pub(super) fn encode(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let key = Bytes::default();
        let single = match self {
            Self::Frontend(address, port, protocol) => key.address(*address).tail(*protocol, *port),
            Self::NodePort(port, protocol) => key.tail(*protocol, *port),
            Self::Slot(address, port, protocol, slot) => key.address(*address).tail(*protocol, *port).number(*slot),
            Self::NodePortSlot(port, protocol, slot) => key.tail(*protocol, *port).number(*slot),
            Self::DispatchKey(dispatch) => dispatch.encode(key),
            Self::Address(address) => key.address(*address),
            Self::Hairpin(address) => key.address(*address).address(*address),
            Self::Member(address, port, pool) => key.address(*address).port(*port).number(*pool),
            Self::Source(source) => {
                let SourceKey { address, port, protocol, range } = **source;
                let bound = |bound| Bytes::default().address(address).tail(protocol, port).address(bound).0;
                return (bound(range.network()), Some(bound(range.broadcast())));
            }
            Self::Foreign(bytes) => return (**bytes).clone(),
        };
        (single.0, None)
    }

    /// Reads a key of this set; what Portolan would not write is foreign.
    pub(super) fn decode(set: SetName, family: Family, start: &[u8], end: Option<&[u8]>) -> Self {
        let is_as_written = |key: &Self| {
            let (first, last) = key.encode();
            (&first[..], last.as_deref()) == (start, end)
        };
        let known = Self::try_decode(set, family, start, end).filter(is_as_written);
        known.unwrap_or_else(|| Self::Foreign(Box::new((start.to_vec(), end.map(<[u8]>::to_vec)))))
    }

    fn try_decode(set: SetName, family: Family, start: &[u8], end: Option<&[u8]>) -> Option<Self> {
        let mut reader = Reader { bytes: start, family };
        Some(match set {
            SetName::Services | SetName::Recalls | SetName::LocalRecalls | SetName::Learners => {
                let (address, (protocol, port)) = (reader.address()?, reader.tail()?);
                Self::Frontend(address, port, protocol)
            }
            SetName::NodePorts
            | SetName::NodePortRecalls
            | SetName::NodePortLocalRecalls
            | SetName::NodePortLearners => {
                let (protocol, port) = reader.tail()?;
                Self::NodePort(port, protocol)
            }
            SetName::Endpoints => {
                let (address, (protocol, port)) = (reader.address()?, reader.tail()?);
                Self::Slot(address, port, protocol, reader.number()?)
            }
            SetName::NodePortEndpoints => {
                let (protocol, port) = reader.tail()?;
                Self::NodePortSlot(port, protocol, reader.number()?)
            }
            SetName::Ways => Self::DispatchKey(DispatchKey::decode(&mut reader)?),
            SetName::ClusterIps | SetName::NodePortAddresses => Self::Address(reader.address()?),
            SetName::Hairpins => Self::Hairpin(reader.address()?),
            SetName::Members => Self::Member(reader.address()?, reader.port()?, reader.number()?),
            SetName::Sources => {
                let (address, (protocol, port)) = (reader.address()?, reader.tail()?);
                let last = Reader { bytes: &end?[start.len() - reader.bytes.len()..], family }.address()?;
                let range = range(reader.address()?, last)?;
                Self::Source(Box::new(SourceKey { address, port, protocol, range }))
            }
            SetName::Connections | SetName::Requests | SetName::Replies => return None,
        })
    }
}

/// The range from `first` to `last`, if it is a prefix.
fn range(first: IpAddr, last: IpAddr) -> Option<IpNet> {
    let longest = if first.is_ipv4() { 32 } else { 128 };
    (0..=longest)
        .filter_map(|length| IpNet::new(first, length).ok())
        .find(|range| range.network() == first && range.broadcast() == last)
}

/// As `nft` prints it.
impl fmt::Display for ElementKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frontend(address, port, protocol) => write!(formatter, "{address} . {protocol} . {port}"),
            Self::NodePort(port, protocol) => write!(formatter, "{protocol} . {port}"),
            Self::Slot(address, port, protocol, slot) => {
                write!(formatter, "{address} . {protocol} . {port} . {slot}")
            }
            Self::NodePortSlot(port, protocol, slot) => write!(formatter, "{protocol} . {port} . {slot}"),
            Self::DispatchKey(key) => write!(formatter, "{key}"),
            Self::Address(address) => write!(formatter, "{address}"),
            Self::Hairpin(address) => write!(formatter, "{address} . {address}"),
            Self::Member(address, port, pool) => write!(formatter, "{address} . {port} . {pool}"),
            Self::Source(source) => {
                let SourceKey { address, port, protocol, range } = **source;
                write!(formatter, "{address} . {protocol} . {port} . ")?;
                match range.prefix_len() == range.max_prefix_len() {
                    true => write!(formatter, "{}", range.addr()),
                    false => write!(formatter, "{range}"),
                }
            }
            Self::Foreign(bytes) => match &**bytes {
                (start, None) => write!(formatter, "{start:02x?}"),
                (start, Some(end)) => write!(formatter, "{start:02x?}-{end:02x?}"),
            },
        }
    }
}
