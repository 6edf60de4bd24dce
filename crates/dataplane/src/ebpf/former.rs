//! What a version with another layout of the maps leaves behind: maps, and links of programs that this version does not have.

use std::path::{Path, PathBuf};
use std::{fs, io};

use portolan_kernel::bpf::{Link, Map, MapDefinition};

use super::clients;
use super::objects::MapName;
use super::pins::{LINKS, remove_folder, remove_pin};
use crate::Error;

/// The start of the name of a folder of maps; the version of their layout follows.
pub(super) const MAPS: &str = "maps-";

/// A map that programs alone write, such as the translations of open sockets, has entries that no sync can write again. It is
/// used further where its entries have the same layout.
pub(super) fn adopt(node: &Path, current: &Path, definition: &MapDefinition) -> Result<Option<Map>, Error> {
    if MapName::ALL.iter().any(|written| written.name() == definition.name) {
        return Ok(None);
    }
    for folder in other_folders(node, current) {
        if let Some(map) = Map::open(&folder.join(&definition.name))?.filter(|map| clients::is_like(map, definition)) {
            return Ok(Some(map));
        }
    }
    Ok(None)
}

/// Removes all of it, once the programs of this version are attached.
pub(super) fn remove(node: &Path, current: &Path, is_own: impl Fn(&str) -> bool) -> Result<(), Error> {
    for link in entries(&node.join(LINKS)).filter(|path| !name(path).is_some_and(&is_own)) {
        Link::open(&link)?.map(|link| link.detach()).transpose()?;
        remove_pin(&link)?;
    }
    other_folders(node, current).try_for_each(|folder| remove_folder(&folder))
}

fn other_folders<'a>(node: &Path, current: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    entries(node).filter(move |path| path != current && name(path).is_some_and(|name| name.starts_with(MAPS)))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
    entries.into_iter().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}
