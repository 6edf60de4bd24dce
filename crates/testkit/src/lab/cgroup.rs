//! A cgroup of the lab's own, so that BPF hooks on the node concern no other lab and no other process of the machine.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, io, process, thread};

/// Threads of one process can be in different cgroups of this kind.
const THREADED: &str = "threaded";
const PINS: &str = "/sys/fs/bpf/portolan";

#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Below the cgroup of this process, because threads cannot leave the part of the tree that their process is in.
    pub fn create() -> io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = own_cgroup()?.join(format!("portolan-lab-{}-{number}", process::id()));
        fs::create_dir(&path)?;
        let cgroup = Self { path };
        fs::write(cgroup.path.join("cgroup.type"), THREADED)?;
        Ok(cgroup)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the calling thread. Its sockets, and the processes that it starts, are in the cgroup from then on.
    pub(super) fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.threads"), "0")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove_cgroup(&self.path);
    }
}

/// Removes the cgroup of a lab, for a process that ends without dropping its lab. Processes that are ending still count for a
/// moment.
pub fn remove_cgroup(path: &Path) {
    remove_pins_of(path);
    for _ in 0..100 {
        if fs::remove_dir(path).is_ok() || !path.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn own_cgroup() -> io::Result<PathBuf> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "cgroup v2 is not mounted");
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).ok_or_else(missing)?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or_else(missing)?;
    Ok(Path::new(mount[1]).join(own))
}

/// What a daemon on the lab's node has pinned: it names its cgroup by a symbolic link.
fn remove_pins_of(cgroup: &Path) {
    for node in fs::read_dir(PINS).into_iter().flatten().flatten() {
        if fs::read_link(node.path().join("cgroup")).is_ok_and(|path| path == cgroup) {
            remove_all(&node.path());
        }
    }
}

/// The file system of pins lists them as special files.
fn remove_all(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if fs::remove_file(entry.path()).is_err() {
            remove_all(&entry.path());
        }
    }
    _ = fs::remove_dir(folder);
}
