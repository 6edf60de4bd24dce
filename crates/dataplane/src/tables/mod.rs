//! The tables of iptables, for every mode that has rules there: rules as text, read, compared, written and run.
//!
//! * `objects`, `rule`, `names`: what there is, and how a rule is spelled.
//! * `layout`: which chains are a mode's own.
//! * `refusals`, `node_ports`: what modes spell in the same way.
//! * `save`, `read`, `script`, `programs`, `kernel`: between objects and the kernel.
//! * `condition`, `sets`, `run`, `trace`: rules run on a packet.

mod condition;
mod kernel;
mod layout;
mod leftovers;
pub(crate) mod names;
pub(crate) mod node_ports;
mod objects;
mod programs;
mod read;
pub(crate) mod refusals;
pub(crate) mod rule;
mod run;
pub mod save;
mod script;
mod sets;
pub(crate) mod trace;

use std::collections::BTreeMap;

pub use condition::Matching;
pub use kernel::RuleTally;
pub(crate) use kernel::TablesKernel;
pub(crate) use layout::{Jump, Layout};
pub(crate) use leftovers::ServiceChains;
pub use objects::{Key, Place, Table, Value};
pub(crate) use programs::{LOCK_SECONDS, missing_programs, output_of, variant_of};
pub use programs::{VARIANT_OPTION, Variant};
pub use run::RuleBook;
pub(crate) use script::listing;

/// What the tables hold of a mode.
pub(crate) type Contents = BTreeMap<Key, Value>;
/// One object, as it is rendered.
pub(crate) type Object = (Key, Value);
