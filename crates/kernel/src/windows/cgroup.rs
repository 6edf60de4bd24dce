//! Windows has no cgroups.

use std::path::{Path, PathBuf};

use super::fd::{AsFd, BorrowedFd, OwnedFd};
use super::only_linux;
use crate::error::{Error, Result};

pub struct Cgroup {
    folder: OwnedFd,
    id: u64,
}

impl Cgroup {
    pub fn open(path: &Path) -> Result<Self> {
        Err(Error::io(format!("opening the cgroup {}", path.display()), only_linux()))
    }

    pub fn id(&self) -> u64 {
        self.id
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

pub fn find_cgroup2() -> Result<Option<PathBuf>> {
    Ok(None)
}

pub fn is_bpf_file_system(_path: &Path) -> Result<bool> {
    Ok(false)
}

pub fn mount_bpf_file_system(folder: &Path) -> Result<()> {
    Err(Error::io(format!("mounting bpf at {}", folder.display()), only_linux()))
}
