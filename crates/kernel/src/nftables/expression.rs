//! The expressions of rules.

use std::sync::Arc;

use portolan_model::Family;

use super::Verdict;
use super::uapi::expression as attribute;

/// One of the sixteen 32-bit registers, or the verdict register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register(pub u8);

impl Register {
    /// The register for the result of a lookup in a verdict map.
    pub const VERDICT: Register = Register(u8::MAX);

    /// The kernel has two numberings, 128-bit registers 1 to 4 and 32-bit registers from 8. It prefers the first
    /// where both fit, and so do we.
    pub(super) fn number(self) -> u32 {
        match self {
            Register::VERDICT => 0,
            Register(word) if word % 4 == 0 => 1 + u32::from(word) / 4,
            Register(word) => 8 + u32::from(word),
        }
    }

    pub(super) fn from_number(number: u32) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        match number {
            0 => Some(Register::VERDICT),
            1..=4 => Some(Register((number - 1) * 4)),
            8..=23 => Some(Register(number - 8)),
            _ => None,
        }
    }
}

/// An expression of a rule. Evaluation ends at the first one that does not match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    Payload {
        base: PayloadBase,
        offset: u32,
        length: u32,
        destination: Register,
    },
    Meta {
        key: MetaKey,
        destination: Register,
    },
    SetMeta {
        key: MetaKey,
        source: Register,
    },
    Conntrack {
        key: ConntrackKey,
        destination: Register,
    },
    /// The type of an address of the packet, as a routing type number.
    Fib {
        address: FibAddress,
        destination: Register,
    },
    Compare {
        source: Register,
        operator: Operator,
        value: Vec<u8>,
    },
    /// Matches if the value is within these bounds, which belong to the range.
    Range {
        source: Register,
        inverted: bool,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    /// `(source & mask) ^ xor`; both have the length of the value.
    Bitwise {
        source: Register,
        destination: Register,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    Immediate {
        destination: Register,
        value: Vec<u8>,
    },
    Verdict(Verdict),
    /// Matches if the key is in the set, and loads the data of a map.
    Lookup {
        set: Arc<str>,
        source: Register,
        destination: Option<Register>,
        inverted: bool,
    },
    /// A number from `offset` to `offset + modulus - 1`.
    NumberGenerator {
        numbers: Numbers,
        destination: Register,
        modulus: u32,
        offset: u32,
    },
    /// The Jenkins hash of `length` bytes. The kernel refuses a modulus below 2.
    Hash {
        source: Register,
        length: u32,
        destination: Register,
        modulus: u32,
        seed: u32,
        offset: u32,
    },
    /// The kernel requires `data` for every operation on a map, even for a deletion.
    Dynset {
        operation: DynsetOperation,
        set: Arc<str>,
        key: Register,
        data: Option<Register>,
        timeout_milliseconds: Option<u64>,
        /// Whether each element has a counter of matching packets.
        counts: bool,
    },
    DestinationNat {
        family: Family,
        address: Register,
        port: Register,
    },
    Masquerade {
        fully_random: bool,
    },
    /// The kinds are 0 for an ICMP error with that code, 1 for a TCP reset.
    Reject {
        kind: u32,
        code: u8,
    },
    /// Its value is not part of the rule: see [`super::Nftables::rule_counts`].
    Counter,
    /// Read from the kernel, but never written.
    Unknown {
        name: String,
    },
}

/// Which number of its range a number generator gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Numbers {
    /// One after the other, by a counter of the rule.
    InTurn,
    Random,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PayloadBase {
    Network,
    Transport,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MetaKey {
    /// The number of the protocol in an Ethernet header, in network byte order.
    EtherType,
    /// The IP version, as an `NFPROTO_` number in a byte.
    NetworkProtocol,
    /// Of the socket that sends, or of the type of service.
    Priority,
    Mark,
    L4Protocol,
    InputInterface,
    InputInterfaceName,
    OutputInterface,
    OutputInterfaceName,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConntrackKey {
    State,
    /// The direction of the packet within its connection, as a byte.
    Direction,
    Status,
    Protocol,
    /// The destination of the connection's first packet, before translation.
    OriginalDestination4,
    OriginalDestination6,
    OriginalDestinationPort,
    /// The source of replies, before it is translated back.
    ReplySource4,
    ReplySource6,
    ReplySourcePort,
    /// The number of the connection's entry.
    Id,
}

impl ConntrackKey {
    /// The direction attribute, for keys that need one.
    pub(super) fn direction(self) -> Option<u8> {
        match self {
            Self::State | Self::Direction | Self::Status | Self::Protocol | Self::Id => None,
            Self::OriginalDestination4 | Self::OriginalDestination6 | Self::OriginalDestinationPort => {
                Some(attribute::CONNTRACK_ORIGINAL)
            }
            Self::ReplySource4 | Self::ReplySource6 | Self::ReplySourcePort => Some(attribute::CONNTRACK_REPLY),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FibAddress {
    Source,
    Destination,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DynsetOperation {
    Add,
    Update,
    Delete,
}

/// Pairs each value with its kernel number, so that encoding and decoding share one table.
macro_rules! numbered {
    ($($type:ident { $($value:ident = $number:literal),* $(,)? })*) => {$(
        impl $type {
            pub(super) fn number(self) -> u32 {
                match self { $($type::$value => $number),* }
            }

            pub(super) fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some($type::$value),)* _ => None }
            }
        }
    )*};
}

numbered! {
    Numbers { InTurn = 0, Random = 1 }
    PayloadBase { Network = 1, Transport = 2 }
    MetaKey {
        EtherType = 1, Priority = 2, Mark = 3, NetworkProtocol = 15, L4Protocol = 16,
        InputInterface = 4, InputInterfaceName = 6, OutputInterface = 5, OutputInterfaceName = 7,
    }
    ConntrackKey {
        State = 0, Direction = 1, Status = 2, Protocol = 10,
        OriginalDestination4 = 20, OriginalDestination6 = 22, OriginalDestinationPort = 12,
        ReplySource4 = 19, ReplySource6 = 21, ReplySourcePort = 11, Id = 23,
    }
    FibAddress { Source = 1, Destination = 2 }
    Operator { Equal = 0, NotEqual = 1, Less = 2, LessOrEqual = 3, Greater = 4, GreaterOrEqual = 5 }
    DynsetOperation { Add = 0, Update = 1, Delete = 2 }
}
