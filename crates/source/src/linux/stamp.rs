//! What `stat` shows of a file, and how a manifest is opened.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};

/// What `stat` shows of the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    size: u64,
    inode: (u64, u64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
            inode: (metadata.dev(), metadata.ino()),
        }
    }

    /// The kernel's timestamps are coarse: a file that was written just before it was read may be written again within
    /// the same tick, without a different stamp.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        let changed = Duration::new(self.changed.0.max(0) as u64, self.changed.1 as u32);
        let age = now.duration_since(SystemTime::UNIX_EPOCH + changed);
        age.is_ok_and(|age| age > Duration::from_millis(100))
    }
}

/// Opening neither waits for the writer of a FIFO, nor makes a terminal that of this process.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

pub(crate) fn is_fifo(kind: FileType) -> bool {
    kind.is_fifo()
}

pub(crate) fn is_socket(kind: FileType) -> bool {
    kind.is_socket()
}
