//! A client with many queries in flight.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use portolan_dns::wire::Name;

use crate::{HEADLESS, SERVICES};

/// Where the server under test listens.
pub(crate) const PORT: u16 = 5300;
/// Sockets, so that no single port is special, and queries in flight on each.
const SOCKETS: usize = 16;
const WINDOW: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    ClusterIp,
    Missing,
    Headless,
}

impl Question {
    pub(crate) const ALL: [Self; 3] = [Self::ClusterIp, Self::Missing, Self::Headless];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClusterIp => "A of a ClusterIP",
            Self::Missing => "a name that does not exist",
            Self::Headless => "A of 50 endpoints",
        }
    }

    fn text(self, dice: u32) -> String {
        match self {
            Self::ClusterIp => format!("s{}.default.svc.cluster.local", dice % SERVICES),
            Self::Missing => format!("www{}.example.org.default.svc.cluster.local", dice % SERVICES),
            Self::Headless => format!("h{}.default.svc.cluster.local", dice % HEADLESS),
        }
    }

    /// All queries of the kind, built before the measurement.
    fn messages(self) -> Vec<Vec<u8>> {
        (0..SERVICES).map(|number| message(&self.text(number.wrapping_mul(7919)))).collect()
    }
}

fn message(name: &str) -> Vec<u8> {
    let name = Name::from_text(name).expect("it is a name");
    let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(&[0, 1, 0, 1]);
    message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    message
}

/// What a client measured.
pub(crate) struct Seen {
    pub(crate) answers: u64,
    pub(crate) lost: u64,
    pub(crate) time: Duration,
    /// Of each response, in nanoseconds, sorted.
    pub(crate) latencies: Vec<u32>,
}

struct Lane {
    socket: UdpSocket,
    sent: [Option<Instant>; WINDOW],
    next: usize,
}

/// Sends queries for that long.
pub(crate) fn query(question: Question, time: Duration) -> Seen {
    let mut messages = question.messages();
    let mut lanes: Vec<Lane> = (0..SOCKETS).map(|lane| Lane::open(lane * 617)).collect();
    let start = Instant::now();
    let mut seen = Seen { answers: 0, lost: 0, time, latencies: Vec::with_capacity(8_000_000) };
    for lane in &mut lanes {
        (0..WINDOW).for_each(|slot| lane.send(slot, &mut messages));
    }
    while start.elapsed() < time {
        for lane in &mut lanes {
            lane.turn(&mut messages, &mut seen);
        }
    }
    seen.time = start.elapsed();
    seen.latencies.sort_unstable();
    seen
}

impl Lane {
    fn open(next: usize) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket.connect((Ipv4Addr::LOCALHOST, PORT)).expect("a server");
        socket.set_nonblocking(true).expect("a socket");
        Self { socket, sent: [None; WINDOW], next }
    }

    fn send(&mut self, slot: usize, messages: &mut [Vec<u8>]) {
        let index = self.next % messages.len();
        self.next += 1;
        messages[index][1] = slot as u8;
        self.sent[slot] = self.socket.send(&messages[index]).ok().map(|_| Instant::now());
    }

    /// Receives responses and sends as many queries again. A query without a response for a second is lost.
    fn turn(&mut self, messages: &mut [Vec<u8>], seen: &mut Seen) {
        let mut buffer = [0; 2048];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let slot = usize::from(buffer[1]) % WINDOW;
            if let Some(sent) = self.sent[slot].take().filter(|_| length > 12) {
                seen.answers += 1;
                seen.latencies.push(sent.elapsed().as_nanos() as u32);
            }
            self.send(slot, messages);
        }
        for slot in 0..WINDOW {
            if self.sent[slot].is_none_or(|sent| sent.elapsed() > Duration::from_secs(1)) {
                seen.lost += 1;
                self.send(slot, messages);
            }
        }
    }
}

/// Repeats the query until the response has an address. Returns the time that took.
pub(crate) fn until_answered(name: &str) -> Duration {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.connect((Ipv4Addr::LOCALHOST, PORT)).expect("a server");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let (message, start, mut buffer) = (message(name), Instant::now(), [0; 2048]);
    while start.elapsed() < TIMEOUT {
        _ = socket.send(&message);
        match socket.recv(&mut buffer) {
            Ok(length) if length > 12 && buffer[7] > 0 => return start.elapsed(),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::thread::yield_now(),
            _ => {}
        }
    }
    panic!("{name} was not answered within {TIMEOUT:?}");
}
