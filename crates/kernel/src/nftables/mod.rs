//! nf_tables over netlink: what can be written and read, batches, and changes made by others.

mod batch;
mod chain;
mod commit;
mod counts;
mod describe;
mod element;
mod expression;
mod expression_decode;
mod expression_encode;
mod kernel;
mod monitor;
mod read;
mod set;
#[cfg(test)]
mod tests;
mod verdict;

pub use batch::Batch;
pub use chain::{ChainKind, Hook, HookPoint};
pub use commit::{Nftables, Options};
pub use counts::Count;
pub use element::{Element, ElementData};
pub use expression::{ConntrackKey, DynsetOperation, Expression, FibAddress, MetaKey, Operator, PayloadBase, Register};
pub use monitor::{ForeignChange, Monitor};
pub use read::ListedRule;
pub use set::{SetData, SetSpec};
pub use verdict::Verdict;

/// The protocol family of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    Ip,
    Ip6,
}

impl Family {
    /// The kernel's `NFPROTO_` number.
    pub fn number(self) -> u8 {
        match self {
            Family::Ip => 2,
            Family::Ip6 => 10,
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            2 => Some(Family::Ip),
            10 => Some(Family::Ip6),
            _ => None,
        }
    }

    /// The name that the `nft` program uses.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ip => "ip",
            Family::Ip6 => "ip6",
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
