//! Flags and file of kube-proxy, read and checked.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use portolan_config::{Given, Read, from_file, from_flags};

/// The limit of a ConfigMap.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The configuration in force, and the file that it comes from, if any.
pub(super) fn read(given: &Given) -> anyhow::Result<(Read, Option<PathBuf>)> {
    let file = given.text("config").map(PathBuf::from);
    let read = match &file {
        Some(path) => from_file(&path.display().to_string(), &text_of(path)?, given)?,
        None => from_flags(given)?,
    };
    Ok((read, file))
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let attempt = || format!("reading the configuration file {}", path.display());
    let mut text = String::new();
    let file = File::open(path).with_context(attempt)?;
    file.take(LARGEST_FILE + 1).read_to_string(&mut text).with_context(attempt)?;
    ensure!(text.len() as u64 <= LARGEST_FILE, "{}: it is larger than {LARGEST_FILE} bytes", attempt());
    Ok(text)
}
