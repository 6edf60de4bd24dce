//! Every system call and all `unsafe` code of Portolan, but for the calls of HNS. Plain blocking code.
//!
//! Messages, codecs and types are the same everywhere. [`system`] is the folder of the operating system: on Windows, what only
//! Linux has is refused with an error.

pub mod accounting;
pub mod addresses;
pub mod bpf;
pub mod conntrack;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod interface_address;
pub mod ipset;
pub mod ipvs;
pub mod links;
pub mod local_address;
pub mod netlink;
pub mod nftables;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;

/// Whether the kernel of this machine is Linux, so that its calls are not refused.
pub const IS_LINUX: bool = cfg!(target_os = "linux");

pub use error::{Error, Refusal, Result};
pub use system::memory::{heap_bytes, release_unused_memory, resident_bytes, share_one_heap};
pub use system::namespace::{enter_network_namespace, enter_new_network_namespace, open_network_namespace};
pub use system::processor::thread_cpu_time;
pub use system::*;
