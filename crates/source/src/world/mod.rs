//! The snapshot of manifests, and how it follows from the objects.

mod allocations;
mod names;
mod nodes;
mod services;
mod slices;
mod snapshot;

pub(crate) use snapshot::World;
