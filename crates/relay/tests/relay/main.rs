//! The relay with real sockets. Tests that need packet rules have a network namespace of their own, and so need root.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod datagrams;
mod endpoints;
mod handover;
mod idle;
mod limits;
mod rules;
mod shortage;
mod streams;
mod support;
