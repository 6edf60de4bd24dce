//! Manifests from standard input, for a daemon that reads files: `portolan diff --manifests -`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::system;

/// They are in memory where the daemon is in a container.
const LARGEST: u64 = 64 << 20;

/// The copy of standard input, which is removed with it.
pub(super) struct StandardInput(Option<PathBuf>);

impl StandardInput {
    /// Copies standard input to a file beside the control socket if the paths have a `-`: the daemon sees that folder in any
    /// case.
    pub(super) fn copied(paths: &[PathBuf], socket: &Path) -> anyhow::Result<Self> {
        if !paths.iter().any(|path| is_input(path)) {
            return Ok(Self(None));
        }
        let folder = socket.parent().unwrap_or(Path::new("/"));
        let path = std::path::absolute(folder)?.join(format!("diff-{}.yaml", std::process::id()));
        let file = system::private(OpenOptions::new().write(true).create_new(true)).open(&path);
        let file = file.with_context(|| format!("copying standard input to {}", path.display()))?;
        let copy = Self(Some(path));
        fill(file).context("copying standard input for the daemon")?;
        Ok(copy)
    }

    /// The paths as the daemon finds them.
    pub(super) fn manifests(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
        let found = |path: &PathBuf| match &self.0 {
            Some(copy) if is_input(path) => Ok(copy.clone()),
            _ => std::path::absolute(path).with_context(|| format!("finding {}", path.display())),
        };
        paths.iter().map(found).collect()
    }
}

impl Drop for StandardInput {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| _ = std::fs::remove_file(path));
    }
}

fn is_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn fill(mut file: File) -> anyhow::Result<()> {
    let length = std::io::copy(&mut std::io::stdin().lock().take(LARGEST + 1), &mut file)?;
    file.flush()?;
    match length {
        0 => bail!("it is empty: the command behind it has probably failed"),
        length if length > LARGEST => bail!("it has more than {LARGEST} bytes"),
        _ => Ok(()),
    }
}
