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
    /// The process is out of descriptors: no pipe is created until the next retry.
    is_short: bool,
}

impl Pipes {
    pub(crate) fn new(limit: usize) -> Self {
        Pipes { idle: Vec::new(), taken: 0, limit, is_short: false }
    }

    /// An empty pipe, unless the limit is reached.
    pub(crate) fn take(&mut self) -> Option<Pipe> {
        if self.taken >= self.limit {
            return None;
        }
        let pipe = self.idle.pop().or_else(|| self.create())?;
        self.taken += 1;
        Some(pipe)
    }

    fn create(&mut self) -> Option<Pipe> {
        if self.is_short {
            return None;
        }
        let pipe = make().ok();
        self.is_short = pipe.is_none();
        pipe
    }

    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    pub(crate) fn shortage_may_be_over(&mut self) {
        self.is_short = false;
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
        let allowed = self.limit.saturating_sub(self.taken);
        if self.is_short { allowed.min(self.idle.len()) } else { allowed }
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
