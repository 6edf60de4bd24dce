//! The cgroup v2 hierarchy, and file systems for pins.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{io, ptr};

use crate::error::{Error, Result};

const MOUNTS: &str = "/proc/self/mounts";
const CGROUP2: &str = "cgroup2";
/// `BPF_FS_MAGIC`
const BPF_FILE_SYSTEM: i64 = 0xcafe_4a11;

/// An open cgroup.
pub struct Cgroup {
    folder: File,
    id: u64,
}

impl Cgroup {
    pub fn open(path: &Path) -> Result<Self> {
        let attempted = || format!("opening the cgroup {}", path.display());
        let folder = File::open(path).map_err(|error| Error::io(attempted(), error))?;
        let id = folder.metadata().map_err(|error| Error::io(attempted(), error))?.ino();
        Ok(Self { folder, id })
    }

    /// What [`crate::bpf::Attachment`] and `bpf_get_current_cgroup_id` call it.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// Where cgroup v2 is mounted; on hosts with both versions not at `/sys/fs/cgroup`. `None` if it is not.
pub fn find_cgroup2() -> Result<Option<PathBuf>> {
    let mounts = fs::read(MOUNTS).map_err(|error| Error::io(format!("reading {MOUNTS}"), error))?;
    Ok(mount_of(&mounts, CGROUP2))
}

/// Whether pins can be created in this folder.
pub fn is_bpf_file_system(path: &Path) -> Result<bool> {
    let failed = |error: io::Error| Error::io(format!("reading the file system of {}", path.display()), error);
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the text lives until the call returns, and the structure is the one that the call writes.
    match unsafe { libc::statfs(path.as_ptr(), &raw mut status) } {
        0 => Ok(i64::from(status.f_type as u32) == BPF_FILE_SYSTEM),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// Mounts a file system for pins on an existing folder.
pub fn mount_bpf_file_system(folder: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::io(format!("mounting bpf at {}", folder.display()), error);
    let path = CString::new(folder.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    // SAFETY: the texts live until the call returns; this file system needs no options.
    match unsafe { libc::mount(c"bpf".as_ptr(), path.as_ptr(), c"bpf".as_ptr(), 0, ptr::null()) } {
        0 => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// The first mount of a file system in a table such as `/proc/self/mounts`.
fn mount_of(mounts: &[u8], kind: &str) -> Option<PathBuf> {
    let mut fields = mounts.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b' '));
    fields.find_map(|mut line| {
        let (_, path, found) = (line.next()?, line.next()?, line.next()?);
        (found == kind.as_bytes()).then(|| PathBuf::from(std::ffi::OsString::from_vec(unescape(path))))
    })
}

/// Spaces and backslashes of a path are octal numbers: `\040`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..3).filter(|_| *first == b'\\').and_then(|it| std::str::from_utf8(it).ok());
        match digits.and_then(|it| u8::from_str_radix(it, 8).ok()) {
            Some(byte) => (bytes.push(byte), rest = &others[3..]),
            None => (bytes.push(*first), rest = others),
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup2_is_found_beside_the_first_version() {
        let mounts = b"tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_of(mounts, CGROUP2), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mount_of(b"cgroup2 /a\\040b\\134 cgroup2 rw 0 0\n", CGROUP2), Some("/a b\\".into()));
        assert_eq!(mount_of(b"cgroup2\ncgroup2 /x tmpfs\n\n", CGROUP2), None);
    }
}
