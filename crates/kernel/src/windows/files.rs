//! What only some systems know about files.

use std::fs::{File, Metadata};
use std::io;
use std::os::windows::fs::MetadataExt;
use std::path::Path;

use super::fd::OwnedFd;

/// Windows gives the number of a file only for one that is open; its times and its size are the next best.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.creation_time(), metadata.last_write_time() ^ metadata.file_size())
}

pub fn symlink(_original: impl AsRef<Path>, _link: impl AsRef<Path>) -> io::Result<()> {
    Err(super::only_linux())
}

pub(crate) fn of_descriptor(_descriptor: OwnedFd) -> io::Result<File> {
    Err(super::only_linux())
}
