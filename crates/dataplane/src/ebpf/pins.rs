//! The files of pinned maps and links, of this node and of nodes that are gone.

use std::path::{Path, PathBuf};
use std::{fs, io};

use portolan_kernel::bpf::{Link, Map, is_bpf_file_system, mount_bpf_file_system};

use crate::Error;

const BPF_FILE_SYSTEM: &str = "/sys/fs/bpf";
const FOLDER: &str = "portolan";
/// In the folder of a node: the symbolic link to its cgroup, and the folder of links.
pub(super) const CGROUP: &str = "cgroup";
pub(super) const LINKS: &str = "links";

/// The folder with a folder for each node.
pub(super) fn nodes() -> PathBuf {
    Path::new(BPF_FILE_SYSTEM).join(FOLDER)
}

/// So that pins can be created.
pub(super) fn prepare_pins() -> Result<(), Error> {
    mount_if_missing()?;
    create_folder(&nodes())
}

/// systemd mounts it on most machines.
pub(super) fn mount_if_missing() -> Result<(), Error> {
    let folder = Path::new(BPF_FILE_SYSTEM);
    if is_bpf_file_system(folder)? {
        return Ok(());
    }
    mount_bpf_file_system(folder)?;
    tracing::info!("mounted a bpf file system at {BPF_FILE_SYSTEM}");
    Ok(())
}

/// Detaches the hooks of a node and removes everything pinned.
pub(super) fn remove_hooks(folder: &Path) -> Result<(), Error> {
    let links = folder.join(LINKS);
    // Links first: from then on the rules decide alone. The kernel may keep a link for a moment after its pin is removed.
    for entry in fs::read_dir(&links).into_iter().flatten().flatten() {
        Link::open(&entry.path())?.map(|link| link.detach()).transpose()?;
    }
    remove_folder(&links)?;
    remove_pin(&folder.join(CGROUP))?;
    for entry in fs::read_dir(folder).map_err(|error| io_failure("reading", folder, error))?.flatten() {
        remove_folder(&entry.path())?;
    }
    fs::remove_dir(folder).map_err(|error| io_failure("removing", folder, error))
}

pub(super) fn replace_pin(map: &Map, path: &Path) -> Result<(), Error> {
    remove_pin(path)?;
    Ok(map.pin(path)?)
}

pub(super) fn remove_folder(folder: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| io_failure("reading", folder, error))?,
    };
    for entry in entries.flatten() {
        remove_pin(&entry.path())?;
    }
    fs::remove_dir(folder).map_err(|error| io_failure("removing", folder, error))
}

pub(super) fn remove_pin(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_failure("removing", path, error)),
        _ => Ok(()),
    }
}

pub(super) fn create_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|error| io_failure("creating", path, error))
}

pub(super) fn io_failure(attempted: &str, path: &Path, error: io::Error) -> Error {
    failure(format!("{attempted} {}", path.display()), error)
}

pub(super) fn failure(attempted: impl Into<String>, reason: impl ToString) -> Error {
    Error::Program { attempted: attempted.into(), reason: reason.to_string() }
}
