//! Errors of watching files and clusters. Errors in files and objects are [`crate::Problem`]s.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot watch {path}: {source}", path = path.display())]
    Watch { path: PathBuf, source: rustix::io::Errno },
    #[error("cannot start watching files: {0}")]
    Start(#[source] rustix::io::Errno),
    #[error("cannot wait for file changes: {0}")]
    Wait(#[source] rustix::io::Errno),
    #[error(transparent)]
    Access(#[from] crate::cluster::error::AccessError),
}
