//! Windows: what a node needs of the system besides HNS. What only Linux has is refused.

pub(crate) mod addresses;
pub mod cgroup;
pub mod compute_network;
pub mod cookie;
pub mod fd;
pub mod files;
pub mod legacy_tables;
pub(crate) mod libc;
pub mod memory;
pub mod mount;
mod names;
pub mod namespace;
pub(crate) mod netlink_socket;
pub mod privileges;
pub mod processor;
pub mod random;
pub mod segment;
pub mod service;
pub mod signal;
pub mod sysctl;
pub mod usage;

use std::io;

pub use addresses::{Adapter, adapters};
pub use names::host_name;

/// The answer to every call of Linux.
fn only_linux() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "Windows has no such call of the Linux kernel")
}

/// The system call bpf(2).
///
/// # Safety
///
/// None is needed here: no call is made.
pub(crate) unsafe fn bpf_call(_command: u32, _words: &mut [u64]) -> io::Result<fd::RawFd> {
    Err(only_linux())
}
