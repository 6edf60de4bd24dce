//! NAMES: cluster DNS from the same snapshot that programs the rules.
//!
//! `Snapshot → Zone → answer` is pure: [`zone`] says what a name stands for, [`answer`] what to tell about it, [`wire`]
//! how that is written. Around it: [`Resolver`] asks others about names that are not ours, and [`Server`] has the ports.
#![forbid(unsafe_code)]

pub mod answer;
mod cache;
pub mod environment;
mod forward;
mod hosts;
mod limit;
mod metrics;
mod published;
mod random;
mod resolve;
mod server;
pub mod wire;
pub mod zone;

pub use cache::{Cache, CacheConfig, Hit, Key};
pub use forward::{ForwardConfig, ForwardError, Forwarder, Policy, RouteConfig};
pub use hosts::Hosts;
pub use limit::RateLimit;
pub use published::Published;
pub use resolve::{Autopath, Client, Config, Handled, Resolver, ThreadState};
pub use server::{Listen, Server, ServerError};
