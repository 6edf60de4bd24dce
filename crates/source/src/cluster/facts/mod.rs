//! What is known of the cluster. The maps of the snapshot are the only store: no object is kept twice.

mod annotations;
mod arrivals;
mod known;
mod listing;
mod names;
mod node;
mod report;
mod services;
mod slices;

pub(super) use known::Facts;
pub(super) use listing::Listing;
pub(super) use report::report_malformed;
