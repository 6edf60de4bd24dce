//! What Windows shows of a file, and how a manifest is opened.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::windows::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What the directory shows of the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    created: u64,
    size: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Self { modified, created: metadata.creation_time(), size: metadata.file_size() }
    }

    /// Times have the resolution of the file system, which is two seconds on FAT.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        now.duration_since(self.modified).is_ok_and(|age| age > Duration::from_secs(2))
    }
}

pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn is_fifo(_kind: FileType) -> bool {
    false
}

pub(crate) fn is_socket(_kind: FileType) -> bool {
    false
}
