//! What only some systems know about files.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
pub use std::os::unix::fs::symlink;

/// The device and the number of a file: two names with the same are one file.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

pub(crate) fn of_descriptor(descriptor: OwnedFd) -> io::Result<File> {
    Ok(File::from(descriptor))
}
