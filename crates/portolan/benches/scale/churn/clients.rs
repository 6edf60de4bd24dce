//! Clients that connect at full speed and note what fails, and during which disturbance.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use crate::node::Node;

const CLUSTER_IP: &str = "10.96.0.80:80";
const NODE_PORT: &str = "192.168.50.1:30080";
const POD: &str = "pod-a1";
const POD_ADDRESS: &str = "10.244.1.2";
const STREAMS: [(&str, &str); 4] = [(POD, CLUSTER_IP), (POD, NODE_PORT), ("node-a", CLUSTER_IP), ("node-a", NODE_PORT)];
/// Long enough for retransmissions, so that only a lasting failure counts.
const TIMEOUT: Duration = Duration::from_secs(10);
const SLOW: Duration = Duration::from_millis(500);

pub(super) struct Clients {
    wanted: usize,
    begin: Instant,
    done: AtomicUsize,
    slow: AtomicUsize,
    /// Connections of the pod to the node port, and those of them that a hook translated: the rules masquerade them.
    visible: AtomicUsize,
    hooked: AtomicUsize,
    endpoint_changes: AtomicUsize,
    is_over: AtomicBool,
    disturbance: Mutex<String>,
    failures: Mutex<Vec<String>>,
}

impl Clients {
    pub(super) fn new(wanted: usize) -> Self {
        Self {
            wanted,
            begin: Instant::now(),
            done: AtomicUsize::new(0),
            slow: AtomicUsize::new(0),
            visible: AtomicUsize::new(0),
            hooked: AtomicUsize::new(0),
            endpoint_changes: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            disturbance: Mutex::new("the start".into()),
            failures: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, node: &'s Node) {
        for (from, to) in STREAMS {
            scope.spawn(move || node.lab.host(from).run(|| self.connect_until_over(from, to)));
        }
    }

    fn connect_until_over(&self, from: &str, to: &str) {
        let address = to.parse().expect("an address");
        while !self.is_over() {
            let (begin, during) = (Instant::now(), self.disturbance().clone());
            match exchange(address) {
                Ok(answer) => self.note_way(from, to, &answer),
                Err(error) => self.note_failure(&format!("{from} -> {to}: {error}"), begin, &during),
            }
            self.done.fetch_add(1, Ordering::Relaxed);
            self.slow.fetch_add(usize::from(begin.elapsed() > SLOW), Ordering::Relaxed);
        }
    }

    /// The server's line has the source address that it sees.
    fn note_way(&self, from: &str, to: &str, answer: &str) {
        if (from, to) == (POD, NODE_PORT) {
            let is_hooked = answer.split(' ').nth(1) == Some(POD_ADDRESS);
            self.visible.fetch_add(1, Ordering::Relaxed);
            self.hooked.fetch_add(usize::from(is_hooked), Ordering::Relaxed);
        }
    }

    fn note_failure(&self, what: &str, begin: Instant, during: &str) {
        let (at, after) = (begin.duration_since(self.begin).as_secs_f64(), begin.elapsed().as_secs_f64());
        let until = self.disturbance().clone();
        let until = if until == during { String::new() } else { format!(", until {until}") };
        let line = format!("{at:.3} s: {what}, after {after:.3} s, during {during}{until}");
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub(super) fn set_disturbance(&self, name: String) {
        *self.disturbance() = name;
    }

    fn disturbance(&self) -> MutexGuard<'_, String> {
        self.disturbance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_endpoint_change(&self) {
        self.endpoint_changes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn wait_for_share(&self, share: f64) {
        while (self.done() as f64) < self.wanted as f64 * share {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    pub(super) fn slow(&self) -> usize {
        self.slow.load(Ordering::Relaxed)
    }

    pub(super) fn hooked(&self) -> String {
        format!("{} of {}", self.hooked.load(Ordering::Relaxed), self.visible.load(Ordering::Relaxed))
    }

    pub(super) fn endpoint_changes(&self) -> usize {
        self.endpoint_changes.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A connection counts only when the server's line has arrived. It is reset, so that no port stays in TIME_WAIT.
fn exchange(address: SocketAddr) -> Result<String, String> {
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT).map_err(|error| format!("connect: {error}"))?;
    let line = read_line(&mut connection).map_err(|error| format!("read: {error}"))?;
    set_socket_linger(&connection, Some(Duration::ZERO)).map_err(|error| format!("linger: {error}"))?;
    Ok(line)
}

fn read_line(connection: &mut TcpStream) -> std::io::Result<String> {
    connection.set_read_timeout(Some(TIMEOUT))?;
    let mut line = Vec::new();
    let mut buffer = [0; 128];
    while !line.ends_with(b"\n") {
        match connection.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            length => line.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}
