//! The pool of pipes, through which bytes are spliced from socket to socket without leaving the kernel. A connection
//! holds a pipe only while there are bytes in it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

pub(crate) struct Pipe {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
}

/// Idle pipes that are kept open.
const MAX_IDLE: usize = 64;

pub(crate) struct Pipes {
    idle: Vec<Pipe>,
    taken: usize,
    limit: usize,
}

impl Pipes {
    pub(crate) fn new(limit: usize) -> Self {
        Pipes { idle: Vec::new(), taken: 0, limit }
    }

    /// An empty pipe, unless the limit is reached.
    pub(crate) fn take(&mut self) -> Option<Pipe> {
        if self.taken >= self.limit {
            return None;
        }
        let pipe = self.idle.pop().or_else(|| make().ok())?;
        self.taken += 1;
        Some(pipe)
    }

    /// Returns an empty pipe to the pool.
    pub(crate) fn give_back(&mut self, pipe: Pipe) {
        self.taken -= 1;
        if self.idle.len() < MAX_IDLE {
            self.idle.push(pipe);
        }
    }

    /// Closes a pipe that still contains bytes.
    pub(crate) fn discard(&mut self, pipe: Pipe) {
        self.taken -= 1;
        drop(pipe);
    }

    /// The number of pipes that are still available.
    pub(crate) fn left(&self) -> usize {
        self.limit.saturating_sub(self.taken)
    }

    /// Pipes in use beyond a lower limit are closed when they are returned.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }
}

fn make() -> Result<Pipe, Errno> {
    let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
    Ok(Pipe { reader, writer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds() {
        let mut pipes = Pipes::new(2);
        let (first, second) = (pipes.take().unwrap(), pipes.take().unwrap());
        assert!(pipes.take().is_none() && pipes.left() == 0);
        pipes.give_back(first);
        assert_eq!(pipes.left(), 1);
        pipes.discard(second);
        assert_eq!((pipes.idle.len(), pipes.taken), (1, 0));
    }
}
