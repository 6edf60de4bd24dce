//! Listing and watching one resource.

mod answer;
mod ended;
mod follow;
mod list;
mod stream;
mod supervisor;

pub(super) use supervisor::supervise;
