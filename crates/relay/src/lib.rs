//! The engine of userspace mode: listens on local ports that packet rules redirect connections to, connects to an
//! endpoint, and copies the bytes.
//!
//! * [`Relay`] is the handle, which other threads use to control it.
//! * `linux/worker` is the thread that does the work, with epoll and splice: TCP payload stays in the kernel.
//! * [`send_sockets`] and [`receive_sockets`] hand listening sockets from one process to the next.
#![forbid(unsafe_code)]

mod carried;
mod counters;
mod error;
mod limits;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;
mod targets;

pub use carried::Carried;
pub use counters::{Counters, EndpointCounters};
pub use error::Error;
pub use limits::Limits;
pub use system::{NamedSocket, Relay, receive_sockets, send_sockets};
pub use targets::{Resets, Selection, Targets};
