//! A process without descriptors. A test of its own, because others in the process would lack them, too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use portolan_model::{Family, Protocol};
use portolan_relay::{Limits, Relay, Targets};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn clients_wait_until_there_are_descriptors_again() {
    let relay = Relay::start(Limits { only_redirected: false, ..Limits::default() }).unwrap();
    let port = relay.listen("web", Protocol::Tcp, Family::V4).unwrap();
    let (address, server) = echo_server();
    let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(port)).collect();

    let mut hoard: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    relay.set_targets("web", Targets { endpoints: vec![address], ..Targets::default() }).unwrap();
    until("nobody can be taken in", || relay.counters()[0].1.refused_at_limit > 0);
    assert_eq!(relay.active(), 0);
    // Enough to take one in, and too few to ask an endpoint.
    hoard.pop();
    until("one is taken in", || relay.active() == 1);

    drop(hoard);
    // All speak before anybody waits: the server has them one after the other, in whatever order they come to it.
    clients.iter_mut().for_each(|client| client.write_all(b"!").unwrap());
    clients.iter_mut().for_each(|client| client.read_exact(&mut [0]).unwrap());
    assert_eq!(relay.counters()[0].1.failed, 0);
    drop(clients);
    server.join().unwrap();
}

/// Has three clients and answers each once.
fn echo_server() -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut served = Vec::new();
        while served.len() < 3 {
            // While there are no descriptors, accepting fails here as well.
            if let Ok((mut stream, _)) = listener.accept() {
                stream.read_exact(&mut [0]).and_then(|()| stream.write_all(b"!")).unwrap();
                served.push(stream);
            }
        }
    });
    (address, thread)
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for this: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
