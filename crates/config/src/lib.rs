//! CONFIGURATION: the flags and the file of kube-proxy, with their defaults and checks, and the configuration of DNS.
//!
//! Everything here is a function from text to values. Two tables hold all options: [`FIELDS`] of the file and
//! [`FLAGS`] of the command line. Reading, defaulting, writing, the page in docs and the tests all iterate over them,
//! so that a field exists in all of these places or in none.
#![forbid(unsafe_code)]

mod arguments;
mod balancing;
mod check;
mod decode;
mod dns;
mod document;
mod fields;
mod flag;
mod flags;
mod gates;
mod lenient;
mod mode;
mod notice;
mod precedence;
mod removed;
mod sanity;
mod span;
mod tree;
mod value;
mod yaml;

pub use arguments::{Given, KubeProxyFlags, TrafficFlags, normalised};
pub use dns::{AclDocument, AclRuleDocument, CacheDocument, DnsDocument, from_corefile};
pub use document::Document;
pub use fields::{FIELDS, Field, Use};
pub use flag::{Flag, Target};
pub use flags::FLAGS;
pub use gates::{GATES, Gate, is_on};
pub use lenient::{parse_address, parse_range};
pub use mode::ConfiguredMode;
pub use notice::{Errors, Level, Notice};
pub use precedence::{Read, from_file, from_flags};
pub use span::{Span, parse_duration};
pub use value::{Kind, Value};

/// The release of kube-proxy that the flags, fields and defaults are those of.
pub const KUBERNETES_VERSION: &str = "v1.37.1";
