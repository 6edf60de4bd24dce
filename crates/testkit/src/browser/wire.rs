//! One request over HTTP, on a connection of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// A browser on a loaded machine may be slow.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The body of the response, whatever its code: an error of WebDriver is in the body.
pub(super) fn request(port: u16, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n");
    write!(stream, "{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    read(&mut BufReader::new(stream))
}

fn read(input: &mut impl BufRead) -> io::Result<String> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().to_ascii_lowercase().split_once(':') {
            None if line.trim_end().is_empty() => break,
            Some(("content-length", value)) => length = value.trim().parse().ok(),
            _ => {}
        }
    }
    let mut body = vec![0; length.ok_or_else(|| io::Error::other("the response has no length"))?];
    input.read_exact(&mut body)?;
    String::from_utf8(body).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_body_has_a_length() {
        for header in ["Content-Length: 2", "content-length:2"] {
            let response = format!("HTTP/1.1 404 Not Found\r\n{header}\r\nX: y\r\n\r\n{{}}more");
            assert_eq!(read(&mut response.as_bytes()).expect("a response"), "{}");
        }
        assert!(read(&mut "HTTP/1.1 200 OK\r\n\r\n".as_bytes()).is_err());
        assert!(read(&mut "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok".as_bytes()).is_err());
    }
}
