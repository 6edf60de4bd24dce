//! Windows' Host Networking Service (HNS), as far as a service proxy needs it: networks, endpoints and load balancers.
//!
//! [`Hns`] is the service with one method for each operation. [`MemoryHns`] is one in memory, with the error codes and the odd
//! habits of the real one, and with failures on demand. The types are the JSON documents of schema 2.0.
#![forbid(unsafe_code)]

mod error;
mod guid;
mod memory;
mod schema;
mod service;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;

pub use error::{Error, ErrorKind};
pub use guid::Guid;
pub use memory::{Habits, MemoryHns, Operation};
pub use schema::{
    Endpoint, IpConfiguration, LoadBalancer, Network, NetworkPolicy, Policy, PolicySettings, PortMapping,
    RemoteSubnetRoute, SchemaVersion, balancer_flags, endpoint_flags, mapping_flags,
};
pub use service::{Hns, Version};
pub use system::connect;
