//! NAMES: cluster DNS from the same snapshot as the rules.
//!
//! `Snapshot → Zone → answer` is pure: [`zone`] resolves a name, [`answer`] selects the records, [`wire`] encodes
//! them. Around it, [`Resolver`] forwards queries for other names to upstream servers, and [`Server`] listens.
#![forbid(unsafe_code)]

mod acl;
pub mod answer;
mod cache;
pub mod environment;
mod forward;
#[doc(hidden)]
pub mod fuzz;
mod hosts;
mod limit;
mod metrics;
mod metrics_page;
mod published;
mod random;
mod resolve;
mod server;
mod sync;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;
pub mod wire;
pub mod zone;

pub use acl::{Acl, AclAction, AclRule};
pub use cache::{Cache, CacheConfig, CacheSizes, Hit, Key};
pub use forward::{ForwardConfig, ForwardError, Forwarder, Policy, RouteConfig};
pub use hosts::Hosts;
pub use limit::RateLimit;
pub use published::Published;
pub use resolve::{Autopath, Client, Config, Deferred, Handled, Resolver, ThreadState};
pub use server::{Listen, Server, ServerError, Sockets};
