//! The committed BPF programs in the real kernel, each test with a network namespace and a cgroup of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod counting;
mod entries;
mod lab;
mod links;
mod maps;
mod objects;
mod routes;
mod signals;
mod tcp;
mod udp;
