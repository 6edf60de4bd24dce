//! FACTS: the state of the Kubernetes API, parsed once at the edge into small types.
//!
//! Nothing here does IO, reads a clock or knows the JSON of Kubernetes. A [`Snapshot`] is a value: cloning it is
//! cheap, and two snapshots that share a Service share its `Arc`, which is how the plan finds what changed.
#![forbid(unsafe_code)]

mod address;
mod balancing;
mod changed;
mod client_hash;
mod endpoint;
mod name;
mod node;
mod observed;
mod service;
mod snapshot;
mod weight;

pub use address::{Family, Protocol};
pub use balancing::{
    Algorithm, Balancing, HashOf, Malformed, Rebalance, RemovedConnections, TableSize, duration, switch,
};
pub use changed::note_changed;
pub use client_hash::{CLIENT_HASH_SEED, client_slot, jhash, scaled};
pub use endpoint::{Conditions, Extras, Hints, Place, Slice, SliceEndpoint, SlicePort, Slices};
pub use name::{PodName, ServiceName, ServicePortName, compare_shared};
pub use node::Node;
pub use observed::{Observation, Observed};
pub use service::{Service, ServiceKind, ServicePort, TrafficPolicy};
pub use snapshot::Snapshot;
pub use weight::{PlaceWeights, Weight};

pub use imbl::ordmap::DiffItem;
pub use imbl::ordset::DiffItem as SetDiffItem;
pub use imbl::{OrdMap, OrdSet};
pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};
