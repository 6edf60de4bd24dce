//! nf_tables over netlink: objects, batches, reads, and notifications of foreign changes.

mod batch;
mod chain;
mod commit;
mod counts;
mod describe;
mod element;
mod expression;
mod expression_decode;
mod expression_encode;
mod family;
pub(crate) mod fuzz;
mod lookup;
mod monitor;
mod read;
mod set;
mod survey;
#[cfg(test)]
mod tests;
mod timed;
mod uapi;
mod verdict;

pub use batch::Batch;
pub use chain::{ChainKind, Hook, HookPoint};
pub use commit::{Nftables, Options};
pub use counts::Count;
pub use element::{Element, ElementData};
pub use expression::{
    ConntrackKey, DynsetOperation, Expression, FibAddress, MetaKey, Numbers, Operator, PayloadBase, Register,
};
pub use family::TableFamily;
pub use lookup::Found;
pub use monitor::{ForeignChange, Monitor, Notice};
pub use read::{Dump, ListedRule};
pub use set::{SetData, SetSpec};
pub use survey::{ListedBase, ListedChain, Policy};
pub use timed::TimedElement;
pub use verdict::Verdict;
