//! One direction of a connection: bytes from one socket through a pipe into another, and then the end of file.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{SpliceFlags, splice};

use super::pipes::{Pipe, Pipes};

/// Steps per turn. A step moves what fits into a pipe, so that a fast connection does not delay others.
const STEPS: usize = 8;

/// More than fits into a pipe. The capacity of a pipe is a number of buffers, whatever their size.
const SPLICE_LENGTH: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Flow {
    pipe: Option<Pipe>,
    /// Bytes in the pipe.
    held: usize,
    /// The source may be readable.
    pub(crate) is_readable: bool,
    /// The sink may be writable.
    pub(crate) is_writable: bool,
    has_ended: bool,
    /// The end of file has been forwarded, or need not be.
    pub(crate) is_finished: bool,
    lacks_pipe: bool,
}

/// The result of a turn. Of two flows, the later one in this order decides when the connection runs again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Pace {
    /// Waiting for an event of one of the sockets.
    Waiting,
    /// Waiting for a pipe.
    NeedsPipe,
    /// More can be done at once, after the turns of other connections.
    Unfinished,
}

/// The side whose socket has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    Source,
    Sink,
}

impl Flow {
    /// A flow between sockets that have just been connected, so that there is room to write.
    pub(crate) fn new(is_readable: bool) -> Self {
        Flow { is_readable, is_writable: true, ..Flow::default() }
    }

    /// Moves bytes for one turn, and adds their number.
    pub(crate) fn run(
        &mut self,
        source: &OwnedFd,
        sink: &OwnedFd,
        pipes: &mut Pipes,
        moved: &mut u64,
    ) -> Result<Pace, Broken> {
        self.lacks_pipe = false;
        for _ in 0..STEPS {
            let has_read = self.fill(source, pipes).map_err(|_| Broken::Source)?;
            let written = self.empty(sink).map_err(|_| Broken::Sink)?;
            *moved += written.unwrap_or(0) as u64;
            if !has_read && written.is_none() {
                self.rest(sink, pipes);
                return Ok(if self.lacks_pipe { Pace::NeedsPipe } else { Pace::Waiting });
            }
        }
        Ok(Pace::Unfinished)
    }

    /// Fills the pipe, but only if its content can be written; returns whether anything was read.
    fn fill(&mut self, source: &OwnedFd, pipes: &mut Pipes) -> Result<bool, Errno> {
        if !self.is_readable || self.has_ended || (self.held > 0 && !self.is_writable) {
            return Ok(false);
        }
        if self.pipe.is_none() {
            self.pipe = pipes.take();
        }
        let Some(pipe) = &self.pipe else {
            self.lacks_pipe = true;
            return Ok(false);
        };
        match splice(source, None, &pipe.writer, None, SPLICE_LENGTH, flags()) {
            Ok(0) => self.has_ended = true,
            Ok(bytes) => self.held += bytes,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(self.nothing_read()),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// The kernel returns EAGAIN both for an empty socket and for a full pipe. Only with an empty pipe is it the
    /// socket.
    fn nothing_read(&mut self) -> bool {
        self.is_readable = self.held > 0;
        false
    }

    /// Writes the content of the pipe; returns the number of bytes, if any were written.
    fn empty(&mut self, sink: &OwnedFd) -> Result<Option<usize>, Errno> {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.held > 0 && self.is_writable) else { return Ok(None) };
        match splice(&pipe.reader, None, sink, None, self.held, flags()) {
            Ok(bytes) => {
                self.held -= bytes;
                Ok(Some(bytes))
            }
            Err(Errno::INTR) => Ok(Some(0)),
            Err(Errno::AGAIN) => {
                self.is_writable = false;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Nothing more can be done now: returns an empty pipe, and forwards the end of file.
    fn rest(&mut self, sink: &OwnedFd, pipes: &mut Pipes) {
        if self.held > 0 {
            return;
        }
        if let Some(pipe) = self.pipe.take() {
            pipes.give_back(pipe);
        }
        if self.has_ended && !self.is_finished {
            // If the other side has closed in the meantime, its own event reports that.
            let _ = shutdown(sink, Shutdown::Write);
            self.is_finished = true;
        }
    }

    /// Discards the content of the pipe.
    pub(crate) fn abandon(&mut self, pipes: &mut Pipes) {
        if let Some(pipe) = self.pipe.take() {
            if self.held > 0 { pipes.discard(pipe) } else { pipes.give_back(pipe) }
        }
    }
}

fn flags() -> SpliceFlags {
    SpliceFlags::MOVE | SpliceFlags::NONBLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::UnixStream;

    /// A flow between two peers of the test.
    struct Stage {
        flow: Flow,
        source: OwnedFd,
        sink: OwnedFd,
        writer: UnixStream,
        reader: UnixStream,
        moved: u64,
    }

    impl Stage {
        fn set() -> Self {
            let pair = || {
                let (peer, ours) = UnixStream::pair().unwrap();
                [&peer, &ours].iter().for_each(|end| end.set_nonblocking(true).unwrap());
                (peer, OwnedFd::from(ours))
            };
            let ((writer, source), (reader, sink)) = (pair(), pair());
            let flow = Flow::new(true);
            Stage { flow, source, sink, writer, reader, moved: 0 }
        }

        fn run(&mut self, pipes: &mut Pipes) -> Result<Pace, Broken> {
            self.flow.is_readable = true;
            self.flow.is_writable = true;
            self.flow.run(&self.source, &self.sink, pipes, &mut self.moved)
        }

        fn read(&mut self) -> Vec<u8> {
            let mut all = Vec::new();
            self.reader.read_to_end(&mut all).unwrap();
            all
        }
    }

    #[test]
    fn an_empty_pipe_is_given_back_and_the_end_is_passed_on() {
        let (mut stage, mut pipes) = (Stage::set(), Pipes::new(1));
        stage.writer.write_all(b"hello").unwrap();
        assert_eq!(stage.run(&mut pipes), Ok(Pace::Waiting));
        assert_eq!((pipes.left(), stage.moved, stage.flow.is_finished), (1, 5, false));
        stage.writer.write_all(b" world").unwrap();
        stage.writer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stage.run(&mut pipes), Ok(Pace::Waiting));
        assert!(stage.flow.is_finished);
        assert_eq!(stage.read(), b"hello world");
    }

    #[test]
    fn a_full_sink_stops_reading() {
        let (mut stage, mut pipes) = (Stage::set(), Pipes::new(1));
        let mut written = 0;
        // Until the writer blocks because nothing more is read from it.
        while stage.writer.write(&[1; 4096]).map(|bytes| written += bytes).is_ok() || stage.flow.held == 0 {
            stage.run(&mut pipes).unwrap();
        }
        assert_eq!(stage.writer.write(&[1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!((stage.run(&mut pipes), pipes.left()), (Ok(Pace::Waiting), 0));
        assert!(stage.moved < written as u64);
    }

    #[test]
    fn without_a_pipe_it_waits_for_one() {
        let (mut stage, mut pipes) = (Stage::set(), Pipes::new(1));
        stage.writer.write_all(b"hello").unwrap();
        let pipe = pipes.take().unwrap();
        assert_eq!(stage.run(&mut pipes), Ok(Pace::NeedsPipe));
        pipes.give_back(pipe);
        assert_eq!((stage.run(&mut pipes), stage.moved), (Ok(Pace::Waiting), 5));
    }

    #[test]
    fn a_turn_ends_though_there_is_more() {
        let (mut stage, mut pipes) = (Stage::set(), Pipes::new(1));
        let mut paces = Vec::new();
        // Small pieces use up the buffers of a pipe long before its bytes.
        while stage.writer.write(&[1]).is_ok() {}
        while paces.last() != Some(&Ok(Pace::Waiting)) {
            paces.push(stage.run(&mut pipes));
        }
        assert!(paces.len() > 1 && paces[0] == Ok(Pace::Unfinished), "{paces:?}");
    }

    #[test]
    fn a_failed_sink_is_distinguished_from_a_failed_source() {
        let (mut stage, mut pipes) = (Stage::set(), Pipes::new(1));
        stage.writer.write_all(b"hello").unwrap();
        drop(std::mem::replace(&mut stage.reader, UnixStream::pair().unwrap().0));
        assert_eq!(stage.run(&mut pipes), Err(Broken::Sink));
        stage.flow.abandon(&mut pipes);
        assert_eq!(pipes.left(), 1);
    }
}
