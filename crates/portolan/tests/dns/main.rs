//! `portolan dns`, asked with Debian's `dig`; `portolan env` and `portolan run`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod churn;
mod commands;
mod configuration;
mod conformance;
mod server;
mod stopping;
