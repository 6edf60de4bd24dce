//! What keys are made of: fields of a packet, and the draw of a slot.

use portolan_kernel::nftables::{ConntrackKey, Expression, MetaKey, Numbers, PayloadBase, Register};
use portolan_model::{CLIENT_HASH_SEED, Family, HashOf};
use portolan_plan::Selection;

use super::kinds::Kind;

/// A field of a packet or of its connection that can be part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Source,
    Destination,
    Protocol,
    Port,
    /// The port of the client.
    SourcePort,
    /// The slot of an endpoint, drawn by [`Draw`].
    Choice,
    /// The destination before translation.
    OriginalDestination,
    OriginalPort,
    /// The protocol of the connection. For an ICMP error about the connection, the packet has another one.
    ConnectionProtocol,
    /// The source of replies: the endpoint.
    ReplySource,
    ReplyPort,
}

impl Field {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Source | Self::Destination | Self::OriginalDestination | Self::ReplySource => Kind::Address,
            Self::Protocol | Self::ConnectionProtocol => Kind::Protocol,
            Self::Port | Self::SourcePort | Self::OriginalPort | Self::ReplyPort => Kind::Port,
            Self::Choice => Kind::Number,
        }
    }

    pub(super) fn words(self, family: Family) -> u32 {
        self.kind().words(family)
    }

    pub(super) fn text(self, family: Family) -> String {
        let ip = family.nft_name();
        match self {
            Self::Source => format!("{ip} saddr"),
            Self::Destination => format!("{ip} daddr"),
            Self::Protocol => "meta l4proto".into(),
            Self::Port => "th dport".into(),
            Self::SourcePort => "th sport".into(),
            Self::Choice => "numgen random mod 1".into(),
            Self::OriginalDestination => format!("ct original {ip} daddr"),
            Self::OriginalPort => "ct original proto-dst".into(),
            Self::ConnectionProtocol => "ct protocol".into(),
            Self::ReplySource => format!("ct reply {ip} saddr"),
            Self::ReplyPort => "ct reply proto-src".into(),
        }
    }

    pub(super) fn load(self, family: Family, destination: Register) -> Expression {
        let network = |offset| Expression::Payload {
            base: PayloadBase::Network,
            offset,
            length: self.kind().length(family),
            destination,
        };
        let transport = |offset| Expression::Payload { base: PayloadBase::Transport, offset, length: 2, destination };
        let connection = |key| Expression::Conntrack { key, destination };
        match (self, family) {
            (Self::Source, Family::V4) => network(12),
            (Self::Source, Family::V6) => network(8),
            (Self::Destination, Family::V4) => network(16),
            (Self::Destination, Family::V6) => network(24),
            (Self::Protocol, _) => Expression::Meta { key: MetaKey::L4Protocol, destination },
            (Self::Port, _) => transport(2),
            (Self::SourcePort, _) => transport(0),
            (Self::Choice, _) => numbers(Numbers::Random, destination, Draw::constant(0)),
            (Self::OriginalDestination, Family::V4) => connection(ConntrackKey::OriginalDestination4),
            (Self::OriginalDestination, Family::V6) => connection(ConntrackKey::OriginalDestination6),
            (Self::OriginalPort, _) => connection(ConntrackKey::OriginalDestinationPort),
            (Self::ConnectionProtocol, _) => connection(ConntrackKey::Protocol),
            (Self::ReplySource, Family::V4) => connection(ConntrackKey::ReplySource4),
            (Self::ReplySource, Family::V6) => connection(ConntrackKey::ReplySource6),
            (Self::ReplyPort, _) => connection(ConntrackKey::ReplySourcePort),
        }
    }

    /// How `nft` notes the expression in a set: payload by protocol and field, the others by their key.
    pub(super) fn typeof_note(self, family: Family) -> Vec<u8> {
        let number = |tag, value: u32| note(tag, &value.to_ne_bytes());
        let expression = |kind, content: &[Vec<u8>]| [number(0, kind), note(1, &content.concat())].concat();
        let payload = |protocol, field| expression(7, &[number(0, protocol), number(1, field)]);
        match (self, family) {
            (Self::Source | Self::ReplySource, Family::V4) => payload(12, 11),
            (Self::Destination | Self::OriginalDestination, Family::V4) => payload(12, 12),
            (Self::Source | Self::ReplySource, Family::V6) => payload(13, 8),
            (Self::Destination | Self::OriginalDestination, Family::V6) => payload(13, 9),
            (Self::Protocol | Self::ConnectionProtocol, _) => expression(9, &[number(0, 16)]),
            (Self::Port | Self::OriginalPort | Self::ReplyPort, _) => payload(11, 2),
            (Self::SourcePort, _) => payload(11, 1),
            (Self::Choice, _) => expression(23, &[number(0, 1), number(1, 1), number(2, 0)]),
        }
    }
}

/// The number of a slot, from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Draw {
    pub(super) selection: Selection,
    pub(super) slots: u32,
    pub(super) offset: u32,
}

impl Draw {
    /// Always this number, as part of a key.
    pub(super) fn constant(number: u32) -> Self {
        Self { selection: Selection::Random, slots: 1, offset: number }
    }

    pub(super) fn text(self, family: Family) -> String {
        let Self { slots, offset, .. } = self;
        let what = match self.selection {
            Selection::Random => format!("numgen random mod {slots}"),
            Selection::InTurn => format!("numgen inc mod {slots}"),
            Selection::ByHash(of) => {
                format!("jhash {} mod {slots} seed {CLIENT_HASH_SEED:#x}", join(hashed(of), family))
            }
        };
        if offset == 0 { what } else { format!("{what} offset {offset}") }
    }

    /// Leaves the number in the register; what is hashed is in it, and in those behind, before.
    pub(super) fn load(self, family: Family, destination: Register) -> Vec<Expression> {
        match self.selection {
            Selection::Random => vec![numbers(Numbers::Random, destination, self)],
            Selection::InTurn => vec![numbers(Numbers::InTurn, destination, self)],
            Selection::ByHash(of) => {
                let length = hashed(of).iter().map(|field| field.words(family) * 4).sum();
                let (source, Self { slots: modulus, offset, .. }) = (destination, self);
                let seed = CLIENT_HASH_SEED;
                let hash = Expression::Hash { source, length, destination, modulus, seed, offset };
                load_from(destination.0, hashed(of), family).into_iter().chain([hash]).collect()
            }
        }
    }
}

fn numbers(numbers: Numbers, destination: Register, draw: Draw) -> Expression {
    Expression::NumberGenerator { numbers, destination, modulus: draw.slots, offset: draw.offset }
}

fn hashed(of: HashOf) -> &'static [Field] {
    match of {
        HashOf::Client => &[Field::Source],
        HashOf::ClientAndPort => &[Field::Source, Field::SourcePort],
    }
}

/// What a frontend is found by.
pub(super) const VIP: &[Field] = &[Field::Destination, Field::Protocol, Field::Port];
pub(super) const NODE_PORT: &[Field] = &[Field::Protocol, Field::Port];

/// What an endpoint consists of, in the order of the map's data.
pub(super) const ENDPOINT: &[Field] = &[Field::Destination, Field::Port];

/// Loads fields into consecutive registers, as a concatenated key needs them.
pub(super) fn load_from(first: u8, fields: &[Field], family: Family) -> Vec<Expression> {
    let mut word = u32::from(first);
    fields
        .iter()
        .map(|field| {
            let load = field.load(family, Register(word as u8));
            word += field.words(family);
            load
        })
        .collect()
}

pub(super) fn join(fields: &[Field], family: Family) -> String {
    fields.iter().map(|field| field.text(family)).collect::<Vec<_>>().join(" . ")
}

/// One entry of tag, length and content.
pub(super) fn note(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, content.len() as u8], content].concat()
}

pub(super) fn kinds(fields: &[Field]) -> Vec<Kind> {
    fields.iter().map(|field| field.kind()).collect()
}
