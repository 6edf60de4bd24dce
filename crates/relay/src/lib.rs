//! The engine of userspace mode: listens on local ports to which packet rules bring connections, finds an endpoint that
//! answers, and moves the bytes.
//!
//! * [`Relay`] is the handle: everything is asked of it from another thread.
//! * `worker` is the one thread that does it, with epoll and without copying: bytes of TCP stay in the kernel.
//! * [`send_sockets`] and [`receive_sockets`] hand listening sockets from one process to the next.
#![forbid(unsafe_code)]

mod counters;
mod error;
mod handover;
mod limits;
mod listening;
mod relay;
mod targets;
mod worker;

pub use counters::Counters;
pub use error::Error;
pub use handover::{NamedSocket, receive_sockets, send_sockets};
pub use limits::Limits;
pub use relay::Relay;
pub use targets::Targets;
