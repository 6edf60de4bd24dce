//! What can go wrong when something is asked of the relay.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{attempted}: {source}")]
    Io { attempted: String, source: io::Error },
    /// There is a listener of that name, but not of that kind.
    #[error("{name} is already listened for with another protocol, family or port")]
    Taken { name: String },
    /// Listeners would use up the descriptors of the process.
    #[error(
        "listening for {name}: {listeners} listeners are open, which is half of the files that this process may open; \
         raise its limit (LimitNOFILE= in systemd, ulimit -Hn)"
    )]
    TooMany { name: String, listeners: usize },
    /// Nothing listens under that name.
    #[error("nothing listens for {name}")]
    Unknown { name: String },
    /// What came from the other process was no list of sockets.
    #[error("the other process sent something else than sockets: {reason}")]
    Malformed { reason: &'static str },
    /// The thread that does the work has ended, which only a mistake in it can cause.
    #[error("the relay's thread has ended")]
    Ended,
}

impl Error {
    pub(crate) fn io(attempted: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { attempted: attempted.into(), source: source.into() }
    }
}
