//! A steady stream of new connections, to detect failures during a change.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Lab;

/// Long enough for retransmissions, so that only a lasting failure counts.
const FAILS_AFTER: Duration = Duration::from_secs(10);

/// Source and destination of the connections of a load.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub from: &'static str,
    pub to: SocketAddr,
}

/// A running load; dropping it ends it.
pub struct Load {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    start: Instant,
}

/// The result of a load.
#[derive(Clone, Debug)]
pub struct Tally {
    pub connections: u64,
    /// One line for each connection that failed.
    pub failures: Vec<String>,
    pub per_second: f64,
    pub slowest: Duration,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    opened: AtomicU64,
    slowest_micros: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Lab {
    /// Opens so many connections per second, shared among the streams, until it is stopped. Each is opened, answered by
    /// a server of the lab and reset.
    pub fn load(&self, streams: &[Stream], per_second: u32) -> Load {
        let shared = Arc::new(Shared::default());
        let interval = Duration::from_secs(1) * streams.len() as u32 / per_second;
        let start = |stream: &Stream| {
            let (stream, shared) = (*stream, shared.clone());
            self.host(stream.from).run(|| thread::spawn(move || shared.keep_connecting(stream, interval)))
        };
        Load { workers: streams.iter().map(start).collect(), shared, start: Instant::now() }
    }
}

impl Load {
    /// How many connections were opened and answered so far.
    pub fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::Relaxed)
    }

    pub fn stop(mut self) -> Tally {
        let elapsed = self.start.elapsed();
        self.end();
        Tally {
            connections: self.opened(),
            failures: self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            per_second: self.opened() as f64 / elapsed.as_secs_f64(),
            slowest: Duration::from_micros(self.shared.slowest_micros.load(Ordering::Relaxed)),
        }
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Connections have scheduled times; a worker that is late catches up.
    fn keep_connecting(&self, stream: Stream, interval: Duration) {
        let mut next = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next += interval;
            let start = Instant::now();
            match connect_once(stream.to) {
                Ok(()) => self.opened.fetch_add(1, Ordering::Relaxed),
                Err(error) => self.note(format!("{} -> {}: {error}", stream.from, stream.to)),
            };
            self.slowest_micros.fetch_max(start.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
    }

    fn note(&self, failure: String) -> u64 {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push(failure);
        failures.len() as u64
    }
}

/// Ended by a reset, so that no port stays in TIME_WAIT.
fn connect_once(to: SocketAddr) -> io::Result<()> {
    let mut connection = TcpStream::connect_timeout(&to, FAILS_AFTER)?;
    connection.set_read_timeout(Some(FAILS_AFTER))?;
    // Unlike `read`, this goes on when the process is stopped and continued.
    let is_answered = connection.read_exact(&mut [0]);
    socket2::SockRef::from(&connection).set_linger(Some(Duration::ZERO))?;
    is_answered
}
