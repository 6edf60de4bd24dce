//! Facts from manifests and from the watch of an API server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod allocation;
mod basics;
mod cluster;
mod common;
mod endpoints;
mod files;
mod sequences;
mod services;
