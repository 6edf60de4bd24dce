//! The real program against the real control plane, beside the real kube-proxy. `make test-cluster` runs this.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cluster;
mod control_plane;
mod deploy;
mod names;
mod node;
mod objects;
mod outage;
#[path = "../daemon/poll.rs"]
mod poll;
mod portolan;
mod privileges;
mod publish;
mod questions;
mod scenarios;
mod shadow;
mod takeover;
mod watch;
