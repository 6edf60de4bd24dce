//! Listing and watching one resource.

mod answer;
mod ended;
mod follow;
mod fuzz;
mod list;
mod stream;

pub(super) use follow::Watcher;
