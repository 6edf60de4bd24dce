//! Linux: every system call that is not a message over netlink.

pub(crate) mod addresses;
pub mod cgroup;
pub mod cookie;
pub mod datagram;
pub mod datagram_batch;
pub mod files;
mod last;
pub mod legacy_tables;
pub mod memory;
pub mod mount;
pub mod namespace;
pub(crate) mod netlink_socket;
pub mod privileges;
pub mod processor;
pub mod segment;
pub mod signal;
pub mod sysctl;

use std::io;

pub(crate) use ::libc;
pub use std::os::fd;

/// The system call bpf(2).
///
/// # Safety
///
/// The words are those of `union bpf_attr`, and what they point to is alive and as large as the command needs.
pub(crate) unsafe fn bpf_call(command: u32, words: &mut [u64]) -> io::Result<fd::RawFd> {
    let length = size_of_val(words);
    // SAFETY: the caller gives what the command reads and writes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, libc::c_long::from(command), words.as_mut_ptr(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as fd::RawFd) }
}
