//! Sets and their types.

use std::fmt;

use super::entry::Entry;

/// The type of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetType {
    HashIp,
    HashIpPort,
    HashIpPortIp,
    HashIpPortNet,
    /// All ports from 0 to 65535.
    BitmapPort,
}

impl SetType {
    pub const ALL: [Self; 5] =
        [Self::HashIp, Self::HashIpPort, Self::HashIpPortIp, Self::HashIpPortNet, Self::BitmapPort];

    pub fn name(self) -> &'static str {
        match self {
            Self::HashIp => "hash:ip",
            Self::HashIpPort => "hash:ip,port",
            Self::HashIpPortIp => "hash:ip,port,ip",
            Self::HashIpPortNet => "hash:ip,port,net",
            Self::BitmapPort => "bitmap:port",
        }
    }

    /// The revision of the type in Linux 3.19, which all kernels since and all programs support.
    pub(super) fn revision(self) -> u8 {
        match self {
            Self::HashIp => 4,
            Self::HashIpPort | Self::HashIpPortIp => 5,
            Self::HashIpPortNet => 7,
            Self::BitmapPort => 3,
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for SetType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A set and its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// `None` for an unknown type.
    pub kind: Option<SetType>,
    pub is_ipv6: bool,
    pub entries: Vec<Entry>,
}
