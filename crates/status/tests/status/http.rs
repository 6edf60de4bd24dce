//! A client that sends exactly the given bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    request(address, "GET", path, "")
}

pub(crate) fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Reply {
    let length = body.len();
    parse(&send(address, format!("{method} {path} HTTP/1.1\r\nHost: node\r\nContent-Length: {length}\r\n\r\n{body}")))
}

/// Sends these bytes and reads until the server closes.
pub(crate) fn send(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes.as_ref()).unwrap();
    read_all(&mut stream)
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

pub(crate) fn read_all(stream: &mut TcpStream) -> String {
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

pub(crate) fn parse(reply: &str) -> Reply {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {reply:?}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status code");
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}
