//! A client that sends what it is given, byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_page::{Access, Ask, Page, Question, Reply};
use portolan_status::Listen;
use serde_json::Value;
use tokio::runtime::{Builder, Handle};

/// Much longer than an answer takes on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A page at a free port of 127.0.0.1.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _page: Page,
}

impl Server {
    pub(crate) fn start(ask: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(None, ask)
    }

    pub(crate) fn start_with(token: Option<&str>, ask: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> Self {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let access = Access::new(address, token, &["node-a"]).unwrap();
        let handle = runtime();
        let listen = Listen { address: Some(address), must_succeed: true };
        let ask: Ask = Arc::new(ask);
        let page = Page::start(listen, access, ask, &handle).unwrap();
        Self { address: page.address().unwrap(), _page: page }
    }

    /// One that echoes each question.
    pub(crate) fn echo() -> Self {
        Self::start(Reply::of)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream
    }

    /// The whole answer to some bytes. The server closes the connection after it.
    pub(crate) fn send(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect();
        // The server may close before it has read everything.
        _ = stream.write_all(request.as_ref());
        let mut bytes = Vec::new();
        _ = stream.read_to_end(&mut bytes);
        Answer(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.get_with(target, "")
    }

    /// With more header lines.
    pub(crate) fn get_with(&self, target: &str, headers: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address))
    }
}

/// A thread that runs for the rest of the test.
fn runtime() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

pub(crate) struct Answer(pub(crate) String);

impl Answer {
    /// 0 if the connection was closed without an answer.
    pub(crate) fn status(&self) -> u16 {
        self.0.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn head(&self) -> &str {
        self.0.split("\r\n\r\n").next().unwrap_or_default()
    }

    pub(crate) fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head().lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.body()).unwrap_or_else(|error| panic!("{error} in {}", self.0))
    }
}

/// Polls until the condition holds.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < LONG, "timed out: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
