//! Every Linux system call and all `unsafe` code of Portolan. Plain blocking code.

pub mod accounting;
pub mod addresses;
pub mod bpf;
pub mod conntrack;
pub mod datagram;
pub mod datagram_batch;
mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod ipset;
pub mod ipvs;
pub mod legacy_tables;
pub mod links;
pub mod local_address;
pub mod memory;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod nftables;
pub mod privileges;
pub mod processor;
pub mod segment;
pub mod signal;
pub mod sysctl;

pub use error::{Error, Refusal, Result};
pub use memory::{release_unused_memory, resident_bytes, share_one_heap};
pub use namespace::{enter_network_namespace, enter_new_network_namespace, open_network_namespace};
pub use processor::thread_cpu_time;
