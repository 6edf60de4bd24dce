//! What the server needs of Linux.

pub(crate) mod datagrams;
pub(crate) mod open;
mod random;

pub(crate) use random::random_bytes;
