//! The page: pictures of Services, and the server over real sockets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod assets;
mod candidates;
mod client;
mod hostile;
mod modes;
mod pictures;
mod streams;
mod token;
mod world;
