//! DNS in a process of its own, without any privilege: what parses messages from the network cannot change rules.

mod facts;
mod frame;
mod parent;
mod process;

pub(crate) use parent::{Worker, WorkerCommand};
pub(crate) use process::run;
