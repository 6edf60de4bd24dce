//! ClusterIPs and node ports of manifests.
//!
//! A Service keeps what it holds for as long as it exists. An explicit request for what another Service holds is refused; a
//! pick never takes what is held.

mod allocator;
mod band;
mod holding;
mod ports;
mod state;

pub(crate) use allocator::{Allocator, Refusal};
pub(crate) use band::usable;
pub(crate) use holding::Holding;
pub(crate) use state::{StateError, load, path as state_path, put_aside, save};
