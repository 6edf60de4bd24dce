//! What the parts of keys and values are, to the kernel (how long) and to the `nft` program (how to print).

use portolan_model::Family;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Address,
    Protocol,
    Port,
    /// The number of a slot.
    Number,
    /// Bits, printed in hexadecimal.
    Bits,
    /// A number of endpoints. `nft` has few types that it prints as a plain number; this one is that of a port.
    Size,
}

impl Kind {
    pub(super) fn length(self, family: Family) -> u32 {
        match (self, family) {
            (Self::Address, Family::V6) => 16,
            (Self::Address, Family::V4) | (Self::Number | Self::Bits, _) => 4,
            (Self::Port | Self::Size, _) => 2,
            (Self::Protocol, _) => 1,
        }
    }

    /// Keys are put together from whole words.
    pub(super) fn words(self, family: Family) -> u32 {
        self.length(family).div_ceil(4)
    }

    /// The number of the type by which `nft` prints it.
    fn type_number(self, family: Family) -> u32 {
        match (self, family) {
            (Self::Number, _) => 4,
            (Self::Address, Family::V4) => 7,
            (Self::Address, Family::V6) => 8,
            (Self::Protocol, _) => 12,
            (Self::Port | Self::Size, _) => 13,
            (Self::Bits, _) => 19,
        }
    }

    pub(super) fn type_text(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::Number, _) => "integer",
            (Self::Address, Family::V4) => "ipv4_addr",
            (Self::Address, Family::V6) => "ipv6_addr",
            (Self::Protocol, _) => "inet_proto",
            (Self::Port | Self::Size, _) => "inet_service",
            (Self::Bits, _) => "mark",
        }
    }
}

/// `nft` packs the type numbers of a concatenation into six bits each.
pub(super) fn concatenated_type(kinds: &[Kind], family: Family) -> u32 {
    kinds.iter().fold(0, |all, kind| (all << 6) | kind.type_number(family))
}

pub(super) fn concatenated_length(kinds: &[Kind], family: Family) -> u32 {
    kinds.iter().map(|kind| kind.words(family) * 4).sum()
}
