//! What the servers and the metrics need of Linux.

pub(crate) mod listen;
mod process;
