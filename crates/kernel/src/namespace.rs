//! Network namespaces of the calling thread.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Moves this thread, and the threads it starts from now on, into a new network namespace.
pub fn enter_new_network_namespace() -> io::Result<()> {
    // SAFETY: takes no pointers, and affects only this thread.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this thread, and the threads it starts from now on, into that network namespace.
pub fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointers, and affects only this thread.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
