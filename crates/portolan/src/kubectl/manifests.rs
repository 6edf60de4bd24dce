//! Files of this machine for `diff`, which a node reads from its standard input.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, bail};
use bytes::Bytes;
use portolan_source::cluster::Input;
use tokio::sync::mpsc::{Receiver, channel};

use super::invocation::Invocation;

/// The node has them in memory.
const LARGEST: usize = 64 << 20;

/// The text of all files, one document after the other. `None` for any other command.
pub(super) fn read(invocation: &mut Invocation) -> anyhow::Result<Option<Bytes>> {
    if invocation.name != "diff" {
        return Ok(None);
    }
    if invocation.manifests.is_empty() {
        bail!("diff compares with files: --manifests PATH (`-` is standard input)");
    }
    let mut text = String::new();
    for (index, path) in files(&invocation.manifests)?.iter().enumerate() {
        if index > 0 {
            text.push_str("\n---\n");
        }
        text.push_str(&content(path)?);
        if text.len() > LARGEST {
            bail!("the manifests have more than {LARGEST} bytes, which is more than a node takes");
        }
    }
    invocation.flags.push("--manifests=-".to_owned());
    Ok(Some(text.into()))
}

fn content(path: &PathBuf) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().take(LARGEST as u64 + 1).read_to_string(&mut text).context("reading standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Of a directory, the manifests that are in it itself, in the order of their names.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let read =
            || -> std::io::Result<Vec<PathBuf>> { std::fs::read_dir(path)?.map(|it| it.map(|it| it.path())).collect() };
        let mut inside = read().with_context(|| format!("listing {}", path.display()))?;
        inside.retain(|path| portolan_source::is_manifest(path) && path.is_file());
        inside.sort();
        found.extend(inside);
    }
    Ok(found)
}

/// The text, and the end of it.
pub(super) fn input(text: Bytes) -> Receiver<Input> {
    let (sender, receiver) = channel(2);
    // There is room for both.
    for input in [Input::Bytes(text), Input::End] {
        _ = sender.try_send(input);
    }
    receiver
}
