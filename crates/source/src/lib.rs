//! Where snapshots come from: manifests on disk, or the API server of a cluster ([`cluster`]).
//!
//! This is the only crate that knows Kubernetes objects. [`spec`] has their fields, decodable from protobuf, JSON and YAML,
//! and [`convert`] turns them into the model: strictly for manifests, leniently for objects that an API server has
//! validated. For manifests this crate also does the work of a control plane: it allocates ClusterIPs and node ports, and
//! makes EndpointSlices from selectors and Pods. A malformed document affects only its own object, whose last good version
//! stays in force; a [`Problem`] has the reason, the file and the line.
#![forbid(unsafe_code)]

mod allocate;
pub mod cluster;
mod convert;
mod endpoints;
mod error;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod intern;
mod locate;
mod manifests;
mod object;
mod options;
mod parse;
mod pods;
mod reading;
mod report;
mod spec;
mod store;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;
mod world;
mod yaml;

pub use error::Error;
pub use files::is_manifest;
pub use locate::{LocatedObject, WantedField, WantedObject, locate};
pub use manifests::Manifests;
pub use options::{Options, State};
pub use report::{Ignored, Problem, Report};
pub use system::watch::Watcher;
