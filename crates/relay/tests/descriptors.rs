//! A process without descriptors. A separate test program, because other tests in the process would lack them, too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portolan_model::{Family, Protocol};
use portolan_relay::{Limits, Relay, Targets};
use socket2::{Domain, Socket, Type};

const PATIENCE: Duration = Duration::from_secs(30);

/// The tests take all descriptors of the process, so that they run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn web(relay: &Relay) -> SocketAddr {
    ([127, 0, 0, 1], relay.listen("web", Protocol::Tcp, Family::V4).unwrap()).into()
}

fn serve(relay: &Relay, endpoint: SocketAddr) {
    relay.set_targets("web", Targets { endpoints: vec![endpoint], ..Targets::default() }).unwrap();
}

fn hoard() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn clients_wait_until_there_are_descriptors_again() {
    let _alone = alone();
    let relay = Relay::start(Limits { only_redirected: false, ..Limits::default() }).unwrap();
    let web = web(&relay);
    let address = echo_server();
    let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(web)).collect();

    let mut hoard = hoard();
    serve(&relay, address);
    until("no client can be accepted", || relay.counters()[0].1.refused_at_limit > 0);
    assert_eq!(relay.active(), 0);
    // Enough to accept one client, and too few to dial an endpoint.
    hoard.pop();
    until("one client is accepted", || relay.active() == 1);

    drop(hoard);
    clients.iter_mut().for_each(|client| client.write_all(b"!").unwrap());
    clients.iter_mut().for_each(|client| client.read_exact(&mut [0]).unwrap());
    assert_eq!(relay.counters()[0].1.failed, 0);
}

/// Clients that wait for a dial, connections that wait for a pipe, and a listener that waits for a descriptor.
#[test]
fn waiting_for_descriptors_takes_little_time_and_memory() {
    const DIALS: usize = 100;
    const STREAMS: usize = 100;
    let _alone = alone();
    let relay = Relay::start(Limits { only_redirected: false, ..Limits::default() }).unwrap();
    let web = web(&relay);
    let (_queue, silent) = silent_endpoint();
    let answering = echo_server();
    serve(&relay, answering);
    let mut streams: Vec<TcpStream> = (0..STREAMS).map(|_| connect(web)).collect();
    streams.iter_mut().for_each(exchange);
    serve(&relay, silent);
    let gauges = Gauges::open();
    let mut late: Vec<TcpStream> = (0..10).map(|_| socket(web)).collect();
    // Most descriptors are taken in advance, so that the rest is taken before the first dial times out.
    let mut most = hoard();
    most.truncate(most.len() - 3 * DIALS - 10);
    // One after the other, so that their dials time out in different turns and lose their descriptors.
    let connect_slowly = |_| {
        std::thread::park_timeout(Duration::from_millis(2));
        connect(web)
    };
    let mut waiting: Vec<TcpStream> = (0..DIALS).map(connect_slowly).collect();
    let hoarder = Hoarder::start();
    late.iter().for_each(|stream| start_connect(stream, web));
    streams.iter_mut().for_each(|stream| stream.write_all(b"!").unwrap());
    until("no client can be accepted", || relay.counters()[0].1.refused_at_limit > 0);
    // The first dials time out meanwhile.
    let (cpu, memory, start) = (gauges.cpu(), gauges.resident_bytes(), Instant::now());
    until("three seconds have passed", || start.elapsed() >= Duration::from_secs(3));
    let (cpu, grown) = (gauges.cpu() - cpu, gauges.resident_bytes().saturating_sub(memory));
    println!("{} ms of CPU time in {:?}, {} kB more resident", cpu.as_millis(), start.elapsed(), grown / 1024);
    assert!(cpu < Duration::from_millis(800), "{cpu:?} of CPU time");
    assert!(grown < 16 << 20, "{grown} bytes more");

    serve(&relay, answering);
    drop((hoarder, most));
    streams.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap());
    waiting.iter_mut().chain(&mut late).for_each(exchange);
    assert_eq!(relay.counters()[0].1.failed, 0);
}

/// Takes every descriptor as soon as it is free.
struct Hoarder {
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hoarder {
    fn start() -> Self {
        let is_ended = Arc::new(AtomicBool::new(false));
        let (ended, mut files) = (Arc::clone(&is_ended), hoard());
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                files.extend(hoard());
                std::thread::park_timeout(Duration::from_micros(200));
            }
        });
        Hoarder { is_ended, thread: Some(thread) }
    }
}

impl Drop for Hoarder {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// An endpoint whose accept queue is full, so that the kernel drops each SYN.
fn silent_endpoint() -> (Vec<Socket>, SocketAddr) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut sockets = vec![listener];
    loop {
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        if client.connect_timeout(&address.into(), Duration::from_millis(200)).is_err() {
            return (sockets, address);
        }
        sockets.push(client);
    }
}

/// The CPU time of the relay's thread and the memory of the process, from files that are open already.
struct Gauges {
    times: File,
    memory: File,
}

impl Gauges {
    fn open() -> Self {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten().map(|it| it.path());
        let is_relay = |it: &PathBuf| fs::read_to_string(it.join("comm")).is_ok_and(|name| name.trim() == "relay");
        let thread = threads.into_iter().find(is_relay).unwrap();
        Gauges { times: File::open(thread.join("schedstat")).unwrap(), memory: File::open("/proc/self/statm").unwrap() }
    }

    fn cpu(&self) -> Duration {
        Duration::from_nanos(number(&self.times, 0))
    }

    fn resident_bytes(&self) -> u64 {
        number(&self.memory, 1) * 4096
    }
}

fn number(file: &File, column: usize) -> u64 {
    let mut text = [0; 200];
    let length = file.read_at(&mut text, 0).unwrap();
    let text = std::str::from_utf8(&text[..length]).unwrap();
    text.split_whitespace().nth(column).unwrap().parse().unwrap()
}

/// Repeats what it receives, for any number of clients at once.
fn echo_server() -> SocketAddr {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(1024).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    std::thread::spawn(move || {
        loop {
            match listener.accept() {
                Ok((stream, _)) => _ = std::thread::spawn(move || echo(stream.into())),
                // While there are no descriptors, accepting fails here as well.
                Err(_) => std::thread::park_timeout(Duration::from_millis(20)),
            }
        }
    });
    address
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = socket(to);
    start_connect(&stream, to);
    stream
}

/// A socket that is not connected yet.
fn socket(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.into()
}

/// The kernel completes the handshake without the relay.
fn start_connect(stream: &TcpStream, to: SocketAddr) {
    socket2::SockRef::from(stream).connect(&to.into()).unwrap();
}

fn exchange(stream: &mut TcpStream) {
    stream.write_all(b"!").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for this: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
