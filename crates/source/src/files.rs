//! The manifest files, and which of them may have changed.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::system::pipe;
pub(crate) use crate::system::stamp::Stamp;
use crate::system::stamp::{is_fifo, is_socket, open};

/// The index of the path that a file was found through, then its own path. This is also the order of files.
pub(crate) type Place = (usize, PathBuf);

pub(crate) fn content_hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

/// The files of all paths. The files of a path that cannot be listed count as unchanged.
pub(crate) struct Listing {
    pub(crate) files: Vec<(Place, io::Result<Stamp>)>,
    pub(crate) failures: Vec<(usize, PathBuf, io::Error)>,
}

pub(crate) fn list(paths: &[PathBuf]) -> Listing {
    let mut listing = Listing { files: Vec::new(), failures: Vec::new() };
    for (index, path) in paths.iter().enumerate() {
        match files_of(path) {
            Ok(files) => listing.files.extend(files.into_iter().map(|(path, stamp)| ((index, path), stamp))),
            Err(error) => listing.failures.push((index, path.clone(), error)),
        }
    }
    listing.files.sort_by(|left, right| left.0.cmp(&right.0));
    listing
}

fn files_of(path: &Path) -> io::Result<Vec<(PathBuf, io::Result<Stamp>)>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() {
        return Ok(vec![(path.to_owned(), Ok(Stamp::of(&metadata)))]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if is_manifest(&path) {
            files.push((path.clone(), fs::metadata(&path)));
        }
    }
    files.retain(|(_, metadata)| !metadata.as_ref().is_ok_and(Metadata::is_dir));
    Ok(files.into_iter().map(|(path, metadata)| (path, metadata.map(|metadata| Stamp::of(&metadata)))).collect())
}

/// Much more than the objects of the largest clusters.
const LARGEST: u64 = 512 << 20;

/// The text of a manifest. Only regular files are read: opening a FIFO would wait for its writer, and a device may have
/// no end.
pub(crate) fn read(path: &Path, may_be_pipe: bool) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if may_be_pipe && is_fifo(metadata.file_type()) {
        return pipe::read(path, LARGEST);
    }
    check(&metadata)?;
    // The path may lead to something else by now, so that the open file is checked as well.
    let file = open(path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    let mut text = String::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // It may grow meanwhile.
    match file.take(LARGEST + 1).read_to_string(&mut text)? as u64 {
        length if length > LARGEST => Err(too_large(length)),
        _ => Ok(text),
    }
}

const FIFO: &str =
    "it is a FIFO, and not a regular file: write its content to a file, which is read again when it changes";

fn check(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let other = match () {
        () if kind.is_file() && metadata.len() > LARGEST => return Err(too_large(metadata.len())),
        () if kind.is_file() => return Ok(()),
        () if is_fifo(kind) => return Err(io::Error::other(FIFO)),
        () if is_socket(kind) => "a socket",
        () if kind.is_dir() => "a directory",
        () => "a device",
    };
    Err(io::Error::other(format!("it is {other}, and not a regular file")))
}

fn too_large(length: u64) -> io::Error {
    io::Error::other(format!("it has {length} bytes, and the limit is {LARGEST}"))
}

/// Whether a file of a directory is read.
pub fn is_manifest(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let known =
        path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json");
    known && !hidden
}
