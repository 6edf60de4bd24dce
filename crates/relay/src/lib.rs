//! The engine of userspace mode: listens on local ports that packet rules redirect connections to, connects to an
//! endpoint, and copies the bytes.
//!
//! * [`Relay`] is the handle, which other threads use to control it.
//! * `worker` is the thread that does the work, with epoll and splice: TCP payload stays in the kernel.
//! * [`send_sockets`] and [`receive_sockets`] hand listening sockets from one process to the next.
#![forbid(unsafe_code)]

mod carried;
mod counters;
mod error;
mod handover;
mod limits;
mod listening;
mod relay;
mod targets;
mod worker;

pub use carried::Carried;
pub use counters::{Counters, EndpointCounters};
pub use error::Error;
pub use handover::{NamedSocket, receive_sockets, send_sockets};
pub use limits::Limits;
pub use relay::Relay;
pub use targets::{Resets, Selection, Targets};
