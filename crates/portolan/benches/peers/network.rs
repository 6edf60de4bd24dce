//! Connections: the server returns the address on which it was reached, and the client measures the time.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

/// Between two attempts while waiting for a change.
const PAUSE: Duration = Duration::from_micros(300);
const TIMEOUT: Duration = Duration::from_secs(3);
/// While nothing is programmed, a packet to a Service is lost, and the next attempt must come soon.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(10);

/// Serves in the background, on every address that the namespace owns.
pub(crate) fn serve_all_addresses(port: u16) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port is free");
    thread::spawn(move || listener.incoming().flatten().for_each(answer));
}

fn answer(mut connection: TcpStream) {
    if let Ok(SocketAddr::V4(address)) = connection.local_addr() {
        _ = connection.write_all(&address.ip().octets());
    }
}

/// The same, but keeps each connection open for as long as its client does.
pub(crate) fn serve_and_hold(port: u16) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port is free");
    let hold = |connection: TcpStream| {
        _ = connection.try_clone().map(answer);
        _ = thread::spawn(|| std::io::copy(&mut { connection }, &mut std::io::sink()));
    };
    thread::spawn(move || listener.incoming().flatten().for_each(hold));
}

/// One connection; returns the address of the endpoint. It is reset, so that no port stays in TIME_WAIT.
fn exchange(address: SocketAddr, timeout: Duration) -> std::io::Result<Ipv4Addr> {
    let mut connection = TcpStream::connect_timeout(&address, timeout)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    let mut octets = [0; 4];
    connection.read_exact(&mut octets)?;
    set_socket_linger(&connection, Some(Duration::ZERO))?;
    Ok(octets.into())
}

/// Connects until a wanted endpoint answers. Returns the time of that answer.
pub(crate) fn wait_for(address: SocketAddr, within: Duration, is_wanted: impl Fn(Ipv4Addr) -> bool) -> Option<Instant> {
    let begin = Instant::now();
    while begin.elapsed() < within {
        if exchange(address, ATTEMPT_TIMEOUT).is_ok_and(&is_wanted) {
            return Some(Instant::now());
        }
        thread::sleep(PAUSE);
    }
    None
}

/// The times of new connections, and how many failed.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) taken: Vec<Duration>,
    pub(crate) failed: usize,
}

impl Times {
    pub(crate) fn add(&mut self, address: SocketAddr) {
        let begin = Instant::now();
        match exchange(address, TIMEOUT) {
            Ok(_) => self.taken.push(begin.elapsed()),
            Err(_) => self.failed += 1,
        }
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.taken.len() as f64 / self.taken.iter().sum::<Duration>().as_secs_f64()
    }

    pub(crate) fn percentile(&self, share: f64) -> Duration {
        percentile(&self.taken, share)
    }
}

pub(crate) fn percentile(times: &[Duration], share: f64) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * share).round() as usize).copied().unwrap_or_default()
}
