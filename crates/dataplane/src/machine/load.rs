//! What expressions load: parts of the packet, of its connection and of the node.

use std::net::IpAddr;

use portolan_kernel::nftables::{ConntrackKey, FibAddress, MetaKey, PayloadBase};
use portolan_model::Family;

use super::table::Unsupported;
use crate::walk::{Branch, Hook, Site};

/// A value to load, as far as it is known.
pub(super) enum Loaded {
    Bytes(Vec<u8>),
    /// Some interface, but not the loopback interface.
    OtherInterface(OtherInterface),
    /// The port of the client, which no trace has.
    ClientPort,
    /// The packet has no such thing, which ends the rule.
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherInterface {
    /// Which interface it is.
    pub(super) what: &'static str,
    /// Whether its index was loaded, and not its name.
    pub(super) is_index: bool,
}

const RTN_UNICAST: u32 = 1;
const RTN_LOCAL: u32 = 2;
const RTN_BROADCAST: u32 = 3;
const RTN_MULTICAST: u32 = 5;
const STATE_NEW: u32 = 8;
const STATE_UNTRACKED: u32 = 64;
const STATUS_DNAT: u32 = 32;
const DIRECTION_ORIGINAL: u8 = 0;
const ETHER_IP: u16 = 0x0800;
const ETHER_IP6: u16 = 0x86dd;
const NFPROTO_IP: u8 = 2;
const NFPROTO_IP6: u8 = 10;
const INTERFACE_NAME_LENGTH: usize = 16;
const PORT_LENGTH: u32 = 2;
/// Every network namespace begins with it.
pub(super) const LOOPBACK_INDEX: u32 = 1;
pub(super) const LOOPBACK_NAME: &str = "lo";
const INCOMING: &str = "the interface that the packet arrives on";
const OUTGOING: &str = "the interface that the packet leaves by";

/// The bytes of a header of which addresses, protocol and destination port are known.
pub(super) fn payload(branch: &Branch, base: PayloadBase, offset: u32, length: u32) -> Result<Loaded, Unsupported> {
    if (base, offset, length) == (PayloadBase::Transport, 0, PORT_LENGTH) {
        return Ok(Loaded::ClientPort);
    }
    let packet = &branch.packet;
    let known: Vec<(u32, Vec<u8>)> = match (base, Family::of(packet.destination)) {
        (PayloadBase::Network, Family::V4) => {
            vec![(9, vec![packet.protocol.number()]), (12, octets(packet.source)), (16, octets(packet.destination))]
        }
        (PayloadBase::Network, Family::V6) => {
            vec![(6, vec![packet.protocol.number()]), (8, octets(packet.source)), (24, octets(packet.destination))]
        }
        (PayloadBase::Transport, _) => vec![(2, packet.port.to_be_bytes().to_vec())],
    };
    let byte = |at: u32| known.iter().find_map(|(start, bytes)| bytes.get(at.checked_sub(*start)? as usize).copied());
    let bytes: Option<Vec<u8>> = (offset..offset.saturating_add(length)).map(byte).collect();
    let unknown = || Unsupported(format!("{} header, {length} bytes at {offset}", base_name(base)));
    bytes.map(Loaded::Bytes).ok_or_else(unknown)
}

pub(super) fn base_name(base: PayloadBase) -> &'static str {
    match base {
        PayloadBase::Network => "network",
        PayloadBase::Transport => "transport",
    }
}

pub(super) fn meta(branch: &Branch, site: &Site<'_>, key: MetaKey) -> Loaded {
    let family = Family::of(branch.packet.destination);
    Loaded::Bytes(match key {
        MetaKey::Mark => branch.mark.to_ne_bytes().to_vec(),
        // What a packet without a type of service has.
        MetaKey::Priority => 0_u32.to_ne_bytes().to_vec(),
        MetaKey::L4Protocol => vec![branch.packet.protocol.number()],
        MetaKey::NetworkProtocol => vec![if family == Family::V4 { NFPROTO_IP } else { NFPROTO_IP6 }],
        MetaKey::EtherType => (if family == Family::V4 { ETHER_IP } else { ETHER_IP6 }).to_be_bytes().to_vec(),
        MetaKey::InputInterface => return incoming(branch, site).index(INCOMING),
        MetaKey::InputInterfaceName => return incoming(branch, site).name(INCOMING),
        MetaKey::OutputInterface => return outgoing(branch, site).index(OUTGOING),
        MetaKey::OutputInterfaceName => return outgoing(branch, site).name(OUTGOING),
    })
}

enum Interface<'a> {
    None,
    Named(&'a str),
    Other,
}

/// Hooks behind the routing of a packet that leaves do not see where it came from.
fn incoming<'a>(branch: &'a Branch, site: &Site<'_>) -> Interface<'a> {
    match (site.hook, branch.packet.interface.as_deref()) {
        (Hook::Output | Hook::Postrouting, _) => Interface::None,
        (_, Some(name)) => Interface::Named(name),
        (_, None) => Interface::Other,
    }
}

fn outgoing(branch: &Branch, site: &Site<'_>) -> Interface<'static> {
    match site.hook {
        Hook::Prerouting | Hook::Input => Interface::None,
        _ if site.owns(branch.packet.destination) => Interface::Named(LOOPBACK_NAME),
        _ => Interface::Other,
    }
}

impl Interface<'_> {
    fn index(&self, what: &'static str) -> Loaded {
        match self {
            Self::None => Loaded::Bytes(0_u32.to_ne_bytes().to_vec()),
            Self::Named(LOOPBACK_NAME) => Loaded::Bytes(LOOPBACK_INDEX.to_ne_bytes().to_vec()),
            Self::Named(_) | Self::Other => Loaded::OtherInterface(OtherInterface { what, is_index: true }),
        }
    }

    fn name(&self, what: &'static str) -> Loaded {
        let name = match self {
            Self::None => "",
            Self::Named(name) => name,
            Self::Other => return Loaded::OtherInterface(OtherInterface { what, is_index: false }),
        };
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(INTERFACE_NAME_LENGTH, 0);
        Loaded::Bytes(bytes)
    }
}

pub(super) fn conntrack(branch: &Branch, key: ConntrackKey) -> Loaded {
    if branch.untracked && key != ConntrackKey::State {
        return Loaded::Absent;
    }
    let is_v4 = branch.packet.destination.is_ipv4();
    Loaded::Bytes(match key {
        ConntrackKey::State => (if branch.untracked { STATE_UNTRACKED } else { STATE_NEW }).to_ne_bytes().to_vec(),
        ConntrackKey::Status => (if branch.translated { STATUS_DNAT } else { 0 }).to_ne_bytes().to_vec(),
        ConntrackKey::Direction => vec![DIRECTION_ORIGINAL],
        ConntrackKey::Protocol => vec![branch.packet.protocol.number()],
        ConntrackKey::OriginalDestination4 if is_v4 => octets(branch.original.ip()),
        ConntrackKey::OriginalDestination6 if !is_v4 => octets(branch.original.ip()),
        ConntrackKey::OriginalDestinationPort => branch.original.port().to_be_bytes().to_vec(),
        ConntrackKey::ReplySource4 if is_v4 => octets(branch.packet.destination),
        ConntrackKey::ReplySource6 if !is_v4 => octets(branch.packet.destination),
        ConntrackKey::ReplySourcePort => branch.packet.port.to_be_bytes().to_vec(),
        // A new connection has a number that no set has.
        ConntrackKey::Id
        | ConntrackKey::OriginalDestination4
        | ConntrackKey::OriginalDestination6
        | ConntrackKey::ReplySource4
        | ConntrackKey::ReplySource6 => return Loaded::Absent,
    })
}

pub(super) fn address_type(branch: &Branch, site: &Site<'_>, address: FibAddress) -> Loaded {
    let address = match address {
        FibAddress::Source => branch.packet.source,
        FibAddress::Destination => branch.packet.destination,
    };
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let kind = match site.owns(address) {
        true => RTN_LOCAL,
        false if address.is_multicast() => RTN_MULTICAST,
        false if is_broadcast => RTN_BROADCAST,
        false => RTN_UNICAST,
    };
    Loaded::Bytes(kind.to_ne_bytes().to_vec())
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
