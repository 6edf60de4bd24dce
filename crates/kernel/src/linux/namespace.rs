//! Network namespaces of the calling thread.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens the file of a network namespace. Any other file does no harm: a pipe, for one, is not waited for.
pub fn open_network_namespace(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

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
