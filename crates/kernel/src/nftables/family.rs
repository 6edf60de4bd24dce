//! The families of tables whose rules see IP packets.

use std::fmt;

use portolan_model::Family;

/// The family of a table that can be read. Tables of [`Family`] can be written, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TableFamily {
    Ip,
    Ip6,
    /// Its chains see packets of both IP versions.
    Inet,
}

impl TableFamily {
    pub const ALL: [Self; 3] = [Self::Ip, Self::Ip6, Self::Inet];

    /// The kernel's `NFPROTO_` number.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Ip => Family::V4.number(),
            Self::Ip6 => Family::V6.number(),
            Self::Inet => 1,
        }
    }

    /// The name of the family in `nft`.
    pub fn nft_name(self) -> &'static str {
        match self {
            Self::Ip => Family::V4.nft_name(),
            Self::Ip6 => Family::V6.nft_name(),
            Self::Inet => "inet",
        }
    }
}

impl fmt::Display for TableFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.nft_name())
    }
}

impl From<Family> for TableFamily {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => Self::Ip,
            Family::V6 => Self::Ip6,
        }
    }
}
