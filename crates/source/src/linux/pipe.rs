//! Manifests from a pipe: `--manifests <(command)` and `--manifests /dev/stdin`. A pipe can be read once, so that only
//! commands that answer once read one.

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::stamp::open;

/// How long to wait for a writer, and then for the end of what it writes.
const WRITER: Duration = Duration::from_secs(5);
const END: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The whole text. A pipe without content is an error: the command behind it has probably failed.
pub(crate) fn read(path: &Path, largest: u64) -> io::Result<String> {
    let bytes = read_all(open(path)?, largest, [WRITER, END])?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

/// Without a writer a read finds the end; with one it would block.
fn read_all(mut pipe: impl Read, largest: u64, [writer, end]: [Duration; 2]) -> io::Result<Vec<u8>> {
    let start = Instant::now();
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match pipe.read(&mut piece) {
            Ok(0) if !bytes.is_empty() => return Ok(bytes),
            Ok(0) if start.elapsed() > writer => return Err(io::Error::other("nothing was written to the pipe")),
            Ok(0) => thread::sleep(LOOK_EVERY),
            Ok(length) if bytes.len() as u64 + length as u64 > largest => {
                return Err(io::Error::other(format!("the pipe has more than {largest} bytes")));
            }
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(LOOK_EVERY),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if start.elapsed() > end {
            return Err(io::Error::other(format!("the pipe does not end within {} s", end.as_secs())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What each read finds. Then it would block.
    struct Pipe(VecDeque<&'static str>);

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let text = self.0.pop_front().ok_or(ErrorKind::WouldBlock)?;
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(600);

    fn outcome(reads: &[&'static str], largest: u64, limits: [Duration; 2]) -> Result<String, String> {
        let bytes = read_all(Pipe(reads.iter().copied().collect()), largest, limits);
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pipe_has_a_limit_of_size_and_of_time() {
        assert_eq!(outcome(&["", "one ", "two", ""], 100, [LONG, LONG]).as_deref(), Ok("one two"));
        assert_eq!(outcome(&["one ", "two", ""], 5, [LONG, LONG]), Err("the pipe has more than 5 bytes".to_owned()));
        assert_eq!(outcome(&["one "], 100, [LONG, SHORT]), Err("the pipe does not end within 0 s".to_owned()));
        assert_eq!(outcome(&[""; 100], 100, [SHORT, LONG]), Err("nothing was written to the pipe".to_owned()));
    }
}
