//! The other side of a connection to the control socket: it has a deadline and a longest line, whatever it sends.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use crate::system::Stream;

/// A stream that fails once its deadline has passed, however many bytes arrive before.
pub(super) struct Peer<'a> {
    stream: &'a Stream,
    deadline: Instant,
}

impl<'a> Peer<'a> {
    pub(super) fn new(stream: &'a Stream, most: Duration) -> Self {
        Self { stream, deadline: Instant::now() + most }
    }

    fn time_left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    /// Up to the end of the line, which must come within that many bytes.
    pub(super) fn read_line(&mut self, longest: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let mut piece = [0; 4096];
        while !line.contains(&b'\n') {
            match self.read(&mut piece)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                length => line.extend_from_slice(&piece[..length]),
            }
            if line.len() > longest {
                return Err(io::Error::new(ErrorKind::InvalidData, format!("a line of more than {longest} bytes")));
            }
        }
        Ok(line)
    }
}

impl Peer<'_> {
    /// The same without a byte beyond the line, for what follows it.
    pub(super) fn read_line_alone(&mut self, longest: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            match self.read(&mut byte)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                _ => line.extend(byte),
            }
            if line.len() > longest {
                return Err(io::Error::new(ErrorKind::InvalidData, format!("a line of more than {longest} bytes")));
            }
        }
        Ok(line)
    }
}

impl Read for Peer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn a_line_has_a_deadline_and_a_length() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"one\n").unwrap();
        assert_eq!(Peer::new(&ours, SHORT).read_line(10).unwrap(), b"one\n");
        theirs.write_all(&[b' '; 20]).unwrap();
        assert_eq!(Peer::new(&ours, SHORT).read_line(10).unwrap_err().kind(), ErrorKind::InvalidData);
        // The peer sends all the time, and never the end of the line.
        let sending = std::thread::spawn(move || while theirs.write_all(b" ").is_ok() {});
        let outcome = Peer::new(&ours, SHORT).read_line(usize::MAX);
        assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock));
        drop(ours);
        sending.join().unwrap();
    }

    #[test]
    fn a_reader_that_stops_reading_has_a_deadline() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let outcome = Peer::new(&ours, SHORT).write_all(&vec![0; 16 << 20]);
        assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock));
    }
}
