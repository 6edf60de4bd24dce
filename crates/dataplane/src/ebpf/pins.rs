//! The files of pinned maps and links.

use std::path::Path;
use std::{fs, io};

use portolan_kernel::bpf::Map;

use crate::Error;

/// The folder of links, in that of a node.
pub(super) const LINKS: &str = "links";

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
