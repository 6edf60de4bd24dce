//! Listing and watching one resource.

mod answer;
mod ended;
mod follow;
mod fuzz;
mod list;
mod stream;
mod supervisor;

pub(super) use follow::Watcher;
pub(super) use supervisor::supervise;
