//! Scenario files and the network-namespace lab, for tests only.
//!
//! * [`Scenario`] reads one file of `scenarios/`: objects in, packets with their expected fate, golden text per mode.
//! * [`topology`] is the table of hosts and addresses that scenario files are written against.
//! * [`Lab`] builds that topology from network namespaces and sends real packets through it.
//! * `cluster`, a feature, adds a real control plane to the lab.
//! * `browser`, a feature, drives a real browser.
#![forbid(unsafe_code)]

#[cfg(feature = "browser")]
pub mod browser;
#[cfg(feature = "cluster")]
pub mod cluster;
mod error;
mod lab;
mod open;
mod packet;
mod scenario;
pub mod topology;

pub use error::Error;
pub use lab::{Answer, Binding, Cgroup, Host, Lab, Load, LongConnection, Outcome, Stream, Tally, check, remove_cgroup};
pub use open::{OpenFate, OpenLine};
pub use packet::{Expected, PacketLine, Protocol, Source};
pub use rustix::thread::CapabilitySet;
pub use scenario::{ConnectionLine, Scenario, Step};
