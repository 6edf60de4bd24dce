//! The errors of system calls.

use std::io;

use crate::error::Error;

impl Error {
    /// The error of the last system call of this thread.
    pub(super) fn last(attempted: impl Into<String>) -> Self {
        Self::io(attempted, io::Error::last_os_error())
    }
}
