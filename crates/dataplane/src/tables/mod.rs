//! The tables of iptables, for every mode with rules in them: rules as text, read, compared, written and traced.
//!
//! * `objects`, `rule`, `names`: the objects, and the text of a rule.
//! * `layout`: the chains that a mode owns.
//! * `refusals`, `node_ports`: rules that several modes share.
//! * `save`, `read`, `script`, `programs`, `kernel`: between objects and the kernel.
//! * `watch`, `processes`: foreign changes, and which are not foreign.
//! * `condition`, `sets`, `run`, `trace`: traces a packet through rules.

mod condition;
mod counted;
mod kernel;
mod layout;
mod leftovers;
pub(crate) mod names;
pub(crate) mod node_ports;
mod noted;
mod objects;
mod processes;
mod programs;
mod read;
pub(crate) mod refusals;
pub(crate) mod rule;
mod run;
pub mod save;
mod script;
mod sets;
pub(crate) mod trace;
mod watch;

use std::collections::BTreeMap;

pub use condition::Matching;
pub(crate) use counted::counted_rules;
pub use kernel::RuleTally;
pub(crate) use kernel::TablesKernel;
pub(crate) use layout::{Jump, Layout};
pub(crate) use leftovers::ServiceChains;
pub use objects::{Key, Place, Table, Value};
pub(crate) use programs::{LOCK_SECONDS, PLAIN_PROGRAM, missing_programs, output_of, variant_of};
pub use programs::{VARIANT_OPTION, Variant};
pub(crate) use read::Reader;
pub use run::RuleBook;
pub(crate) use script::listing;

/// The objects of a mode in these tables.
pub(crate) type Contents = BTreeMap<Key, Value>;
/// One object, as it is rendered.
pub(crate) type Object = (Key, Value);
