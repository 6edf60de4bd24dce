//! `portolan dns`, queried with Debian's `dig`; `portolan env` and `portolan run`.

mod churn;
mod commands;
mod configuration;
mod conformance;
mod overload;
pub(crate) mod server;
mod stopping;
