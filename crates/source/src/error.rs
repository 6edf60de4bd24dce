//! What can go wrong with watching files and clusters. What is wrong with files and objects is a [`crate::Problem`].

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot watch {path}: {source}", path = path.display())]
    Watch { path: PathBuf, source: rustix::io::Errno },
    #[error("cannot start watching files: {0}")]
    Start(#[source] rustix::io::Errno),
    #[error("cannot wait for changes of files: {0}")]
    Wait(#[source] rustix::io::Errno),
    #[error(transparent)]
    Access(#[from] crate::cluster::AccessError),
}
