//! Listing and watching one resource.

mod answer;
mod ended;
mod follow;
mod list;
mod stream;

pub(super) use follow::Watcher;
