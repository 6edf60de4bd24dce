//! Errors of relay operations.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{attempted}: {source}")]
    Io { attempted: String, source: io::Error },
    /// A listener of that name exists with other properties.
    #[error("the listener {name} exists with another protocol, family or port")]
    Taken { name: String },
    /// The listeners would use up the descriptors of the process.
    #[error(
        "listening for {name}: {listeners} listeners are open, which is half of the files that this process may open; \
         raise its limit (LimitNOFILE= in systemd, ulimit -Hn)"
    )]
    TooMany { name: String, listeners: usize },
    /// There is no listener of that name.
    #[error("there is no listener {name}")]
    Unknown { name: String },
    /// The other process sent something that is not a list of sockets.
    #[error("the other process did not send a list of sockets: {reason}")]
    Malformed { reason: &'static str },
    /// The worker thread has ended, which only a bug can cause.
    #[error("the relay's thread has ended")]
    Ended,
}

impl Error {
    pub(crate) fn io(attempted: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { attempted: attempted.into(), source: source.into() }
    }
}
