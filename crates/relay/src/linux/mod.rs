//! The relay on Linux: epoll and splice.

mod handover;
mod listening;
mod relay;
mod shares;
mod tally;
mod worker;

pub use handover::{NamedSocket, receive_sockets, send_sockets};
pub use relay::Relay;
