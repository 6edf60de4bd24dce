//! What the servers and the metrics need of Windows.

pub(crate) mod listen;
mod process;
