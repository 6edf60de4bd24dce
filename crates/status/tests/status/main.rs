//! The servers over real sockets, each test in its own network namespace.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod documentation;
mod exposition;
mod fixture;
mod health;
mod health_check_ports;
mod hostile;
mod http;
mod lint;
mod names;
mod pages;
#[path = "../../../portolan/tests/daemon/poll.rs"]
mod poll;
mod traffic;
