//! Questions as resolvers send them: A and AAAA from one socket, each by its own thread, both at the same moment. The first two
//! packets of a flow then race for its entry in connection tracking.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::resolvers::CLUSTER_IP;

/// Sockets whose questions are sent before the answers are read. The buffers of the servers hold more.
const SOCKETS: usize = 100;
/// A question without an answer is lost after this time, and sent again.
const LOST_AFTER: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 5;
/// No port is used twice, so that no flow exists already.
const FIRST_PORT: usize = 10_000;
const PORTS: usize = 50_000;
/// A and AAAA.
const TYPES: [u8; 2] = [1, 28];

#[derive(Clone, Copy)]
pub(super) enum Socket {
    Connected,
    Unconnected,
}

#[derive(Default)]
pub(super) struct Count {
    pub(super) questions: usize,
    /// Without an answer after one second.
    pub(super) lost: usize,
    pub(super) retransmissions: usize,
    /// Without an answer after all attempts.
    pub(super) unanswered: usize,
    /// Sockets whose two questions reached different endpoints: each packet was the first of its flow.
    pub(super) split: usize,
}

impl Socket {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connected => "connect, send",
            Self::Unconnected => "sendto",
        }
    }

    /// Where the ports of this kind begin.
    fn offset(self) -> usize {
        match self {
            Self::Connected => 0,
            Self::Unconnected => PORTS / 2,
        }
    }

    fn open(self, number: usize) -> UdpSocket {
        let port = FIRST_PORT + (self.offset() + number) % PORTS;
        let socket = UdpSocket::bind(("0.0.0.0", port as u16)).expect("the port is free");
        if let Self::Connected = self {
            socket.connect(service()).expect("there is a route");
        }
        socket
    }

    fn send(self, socket: &UdpSocket, question: &[u8]) {
        // An error is about an earlier datagram; the question counts as lost.
        _ = match self {
            Self::Connected => socket.send(question),
            Self::Unconnected => socket.send_to(question, service()),
        };
    }
}

fn service() -> SocketAddr {
    SocketAddr::new(CLUSTER_IP.parse().expect("an address"), 53)
}

/// A burst: one hundred sockets with two questions each.
pub(super) fn ask(kind: Socket, count: &mut Count) {
    let first = count.questions / TYPES.len();
    let sockets: Vec<UdpSocket> = (first..first + SOCKETS).map(|number| kind.open(number)).collect();
    let senders = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for record in TYPES {
            let (sockets, senders) = (&sockets, &senders);
            scope.spawn(move || send_all(kind, sockets, record, senders));
        }
    });
    let sent = Instant::now();
    count.questions += SOCKETS * TYPES.len();
    for socket in &sockets {
        receive(kind, socket, sent, count);
    }
}

/// Both threads send on the same socket when both have arrived there.
fn send_all(kind: Socket, sockets: &[UdpSocket], record: u8, senders: &AtomicUsize) {
    for (index, socket) in sockets.iter().enumerate() {
        let question = question(record);
        senders.fetch_add(1, Ordering::SeqCst);
        meet(senders, TYPES.len() * (index + 1));
        kind.send(socket, &question);
    }
}

/// Spins, so that both threads go on at once; with a single processor free, the other thread must run first.
fn meet(senders: &AtomicUsize, wanted: usize) {
    for turn in 0_u32.. {
        if senders.load(Ordering::SeqCst) >= wanted {
            return;
        }
        if turn % 4096 == 4095 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// The servers answer each datagram with one.
fn receive(kind: Socket, socket: &UdpSocket, sent: Instant, count: &mut Count) {
    let first = answers(socket, TYPES.len(), sent);
    let mut missing = TYPES.len() - first.len();
    count.lost += missing;
    count.split += usize::from(first.windows(2).any(|pair| pair[0] != pair[1]));
    for _ in 0..ATTEMPTS {
        if missing == 0 {
            return;
        }
        let again = Instant::now();
        TYPES.iter().take(missing).for_each(|record| kind.send(socket, &question(*record)));
        count.retransmissions += missing;
        missing -= answers(socket, missing, again).len();
    }
    count.unanswered += missing;
}

/// The names of the servers whose answers arrive in time from the Service's address, at most so many.
fn answers(socket: &UdpSocket, wanted: usize, sent: Instant) -> Vec<Vec<u8>> {
    let mut servers = Vec::new();
    let mut buffer = [0; 256];
    while servers.len() < wanted {
        let left = LOST_AFTER.saturating_sub(sent.elapsed()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).expect("the time is not zero");
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) if from == service() => servers.push(first_word(&buffer[..length])),
            Err(_) if sent.elapsed() >= LOST_AFTER => break,
            _ => {}
        }
    }
    servers
}

fn first_word(line: &[u8]) -> Vec<u8> {
    line.split(|it| *it == b' ').next().unwrap_or_default().to_vec()
}

/// `kubernetes.default.svc.cluster.local` of that type.
fn question(record: u8) -> Vec<u8> {
    let mut question = vec![0, record, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["kubernetes", "default", "svc", "cluster", "local"] {
        question.push(label.len() as u8);
        question.extend(label.bytes());
    }
    question.extend([0, 0, record, 0, 1]);
    question
}
