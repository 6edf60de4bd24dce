//! One daemon per control socket: a lock on a file beside the socket, held for the life of the process. The kernel
//! releases it when the process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Context;
use portolan_kernel::fd::OwnedFd;

use crate::system;

/// The lock of this process. Dropping it releases it, unless another process has a duplicate.
#[derive(Debug)]
pub(crate) struct Lock(File);

/// The outcome of an attempt to take the lock.
pub(crate) enum Claim {
    /// `None` if there can be no lock file; the daemon works without it, as it does without the control socket.
    Ours(Option<Lock>),
    /// Another process has it.
    Taken,
}

impl Claim {
    pub(crate) fn make(control_socket: &Path) -> Self {
        match open(control_socket) {
            Ok(file) => match file.try_lock() {
                Ok(()) => Self::Ours(Some(Lock(file))),
                Err(TryLockError::WouldBlock) => Self::Taken,
                Err(TryLockError::Error(error)) => Self::without(&error.into()),
            },
            Err(error) => Self::without(&error),
        }
    }

    fn without(error: &anyhow::Error) -> Self {
        tracing::warn!(
            "a second portolan proxy is not prevented: {error:#} (make the directory writable, or free space there)"
        );
        Self::Ours(None)
    }
}

impl Lock {
    /// For the process that replaces this one: it holds the lock as soon as it has the duplicate.
    pub(super) fn duplicate(&self) -> std::io::Result<OwnedFd> {
        self.0.try_clone().and_then(system::into_descriptor)
    }

    pub(super) fn adopt(descriptor: OwnedFd) -> std::io::Result<Self> {
        system::from_descriptor(descriptor).map(Self)
    }
}

fn open(control_socket: &Path) -> anyhow::Result<File> {
    let path = lock_path(control_socket);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    system::private(&mut options).open(&path).with_context(|| format!("opening {}", path.display()))
}

fn lock_path(control_socket: &Path) -> PathBuf {
    let mut name = control_socket.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_the_lock_until_its_last_duplicate_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("new/portolan.sock");
        let Claim::Ours(Some(lock)) = Claim::make(&socket) else { panic!("it is free") };
        assert!(matches!(Claim::make(&socket), Claim::Taken));
        let duplicate = Lock::adopt(lock.duplicate().unwrap()).unwrap();
        drop(lock);
        assert!(matches!(Claim::make(&socket), Claim::Taken));
        drop(duplicate);
        assert!(matches!(Claim::make(&socket), Claim::Ours(Some(_))));
    }

    #[test]
    fn without_a_lock_file_the_daemon_starts() {
        assert!(matches!(Claim::make(Path::new("/proc/none/portolan.sock")), Claim::Ours(None)));
    }
}
