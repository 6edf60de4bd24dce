//! Which folders of pins belong to a daemon that runs: it holds a lock on its folder. The kernel releases the lock when the
//! process ends, however it ends.

use std::fs::File;
use std::path::Path;
use std::{fs, io};

use portolan_kernel::bpf::Link;
use portolan_kernel::files::identity;

use super::pins::{CGROUP, LINKS, create_folder, failure, io_failure, nodes, remove_hooks};
use crate::Error;

/// Another daemon may remove the folder between its creation and the lock, but not time after time.
const MOST_ATTEMPTS: usize = 20;

/// Held as long as the daemon uses its pins. Two daemons of one node, one of which replaces the other, share it.
#[derive(Debug)]
pub(super) struct Claim {
    _locked: File,
}

impl Claim {
    /// Creates the folder if it does not exist.
    pub(super) fn make(folder: &Path) -> Result<Self, Error> {
        for _ in 0..MOST_ATTEMPTS {
            create_folder(folder)?;
            let file = lock(folder).map_err(|error| io_failure("locking", folder, error))?;
            if let Some(file) = file.filter(|file| is_still(folder, file)) {
                return Ok(Self { _locked: file });
            }
        }
        Err(failure(format!("locking {}", folder.display()), "other processes remove it again and again"))
    }
}

/// `None` if the folder is gone.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.and_then(|file| file.lock_shared().map(|()| Some(file))),
    }
}

fn is_still(folder: &Path, file: &File) -> bool {
    let inode = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|it| identity(&it));
    inode(file.metadata()) == inode(fs::metadata(folder))
}

/// A lock for the removal of a folder that no daemon uses; `None` if one does.
fn lock_unused(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// Nodes in containers, such as those of kind, may end without a cleanup. Their cgroup goes with them, but not their pins. A
/// node whose daemon runs is not abandoned: its cgroup may be that of another mount namespace.
pub(super) fn remove_abandoned() {
    for node in fs::read_dir(nodes()).into_iter().flatten().flatten() {
        let is_abandoned = fs::read_link(node.path().join(CGROUP)).is_ok_and(|cgroup| !cgroup.exists());
        if is_abandoned
            && let Some(_lock) = lock_unused(&node.path())
            && !has_attached(&node.path())
            && let Err(error) = remove_hooks(&node.path())
        {
            tracing::warn!("{error}");
        }
    }
}

/// The path of a cgroup may be that of another mount namespace; the kernel knows whether it still exists.
fn has_attached(folder: &Path) -> bool {
    let links = fs::read_dir(folder.join(LINKS)).into_iter().flatten().flatten();
    let mut links = links.filter_map(|entry| Link::open(&entry.path()).ok()?);
    links.any(|link| link.info().is_ok_and(|info| info.attached.is_some_and(|it| it.cgroup != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_not_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("node");
        let (first, second) = (Claim::make(&folder).unwrap(), Claim::make(&folder).unwrap());
        drop(first);
        assert!(lock_unused(&folder).is_none(), "the second daemon runs");
        drop(second);
        let removal = lock_unused(&folder).expect("no daemon runs");
        fs::remove_dir(&folder).unwrap();
        drop(removal);
        Claim::make(&folder).unwrap();
        assert!(folder.is_dir());
    }
}
