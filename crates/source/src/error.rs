//! Errors of watching files and clusters. Errors in files and objects are [`crate::Problem`]s.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot watch {path}: {source}", path = path.display())]
    Watch { path: PathBuf, source: io::Error },
    #[error("cannot start watching files: {0}")]
    Start(#[source] io::Error),
    #[error("cannot wait for file changes: {0}")]
    Wait(#[source] io::Error),
    #[error(transparent)]
    Access(#[from] crate::cluster::error::AccessError),
}
