//! Clients and upstream servers that do their worst: memory stays bounded, and other clients still get cluster names.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::server::{Server, cluster, receive};

/// The peak of resident memory that a flood may cause.
const MAX_RESIDENT: u64 = 64 << 20;
/// The duration of each flood.
const FLOOD: Duration = Duration::from_secs(3);
/// Far above the p99 of 20 ms that an idle machine has: these tests run beside others on two cores.
const MAX_LATENCY: Duration = Duration::from_millis(250);
/// After this time a query counts as lost.
const LOST: Duration = Duration::from_secs(1);
const LARGE_ANSWERS: u16 = 400;
const CLUSTER_NAME: &str = "hello-service.default.svc.cluster.local";

/// How an upstream server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Upstream {
    /// It never answers.
    Silent,
    /// It answers after a second.
    Slow,
    /// It answers with a wrong id, then with TC; over TCP it announces 64 KiB and sends one octet per second.
    Lying,
    /// It answers with TC, and over TCP with so many records.
    Lavish(u16),
}

/// Threads of an upstream or of a flood, which end with the test.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// The same port in both protocols. A port that is free in one may be in use in the other.
fn both_protocols() -> (TcpListener, UdpSocket) {
    let attempt = || {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let udp = UdpSocket::bind(tcp.local_addr().ok()?).ok()?;
        Some((tcp, udp))
    };
    (0..100).find_map(|_| attempt()).expect("a port is free in both protocols")
}

fn start_upstream(kind: Upstream) -> Running {
    let (tcp, udp) = both_protocols();
    let address = tcp.local_addr().unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (for_udp, for_tcp) = (stop.clone(), stop.clone());
    let threads = vec![
        thread::spawn(move || upstream_by_udp(&udp, kind, &for_udp)),
        thread::spawn(move || upstream_by_tcp(&tcp, kind, &for_tcp)),
    ];
    Running { address, stop, threads }
}

fn upstream_by_udp(socket: &UdpSocket, kind: Upstream, stop: &AtomicBool) {
    let mut waiting: std::collections::VecDeque<(Instant, Vec<u8>, SocketAddr)> = Default::default();
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let message = buffer[..length].to_vec();
            match kind {
                Upstream::Silent => {}
                Upstream::Lavish(_) => _ = socket.send_to(&truncated(&message), from),
                Upstream::Slow => waiting.push_back((Instant::now(), message, from)),
                Upstream::Lying => {
                    let mut wrong = answer(&message, 1);
                    wrong[0] ^= 1;
                    _ = socket.send_to(&wrong, from);
                    _ = socket.send_to(&truncated(&message), from);
                }
            }
        }
        while waiting.front().is_some_and(|(since, ..)| since.elapsed() > Duration::from_secs(1)) {
            let Some((_, message, from)) = waiting.pop_front() else { break };
            _ = socket.send_to(&answer(&message, 1), from);
        }
    }
}

fn upstream_by_tcp(listener: &TcpListener, kind: Upstream, stop: &AtomicBool) {
    let mut open = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::park_timeout(Duration::from_millis(1));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut length = [0; 2];
        _ = stream.read_exact(&mut length);
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut message).is_err() || message.len() < 12 {
            continue;
        }
        if let Upstream::Lavish(records) = kind {
            let answer = answer(&message, records);
            _ = stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat());
        } else {
            _ = stream.write_all(&[0xff, 0xff, message[0]]);
            open.push(stream);
        }
    }
}

/// The question of a message: its end, and its octets from the header on.
fn question_end(message: &[u8]) -> usize {
    let mut place = 12;
    while message[place] > 0 {
        place += 1 + usize::from(message[place]);
    }
    place + 5
}

fn truncated(message: &[u8]) -> Vec<u8> {
    let mut answer = message[..question_end(message)].to_vec();
    answer[2] |= 0x82;
    answer[6..12].fill(0);
    answer
}

/// Owners are the name of the question below a label of their own, so that each expands to a long name.
fn answer(message: &[u8], records: u16) -> Vec<u8> {
    let mut answer = message[..question_end(message)].to_vec();
    answer[2] |= 0x80;
    answer[6..8].copy_from_slice(&records.to_be_bytes());
    answer[8..12].fill(0);
    for number in 0..records {
        let [high, low] = number.to_be_bytes();
        if records > 1 {
            answer.extend_from_slice(&[2, b'a' + (high & 15), b'0' + (low & 63)]);
        }
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, 192, 0, high, low]);
    }
    answer
}

fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

/// Up to 100,000 queries per second for names that no cache holds.
fn flood(port: u16) -> Running {
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = stop.clone();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let thread = thread::spawn(move || {
        let padding = ["x".repeat(60), "y".repeat(60), "z".repeat(60)].join(".");
        for number in 0u32.. {
            let message = question(number as u16, &format!("{number}.{padding}.flood.example"));
            _ = socket.send_to(&message, (Ipv4Addr::LOCALHOST, port));
            if number.is_multiple_of(100) {
                thread::park_timeout(Duration::from_millis(1));
            }
            if is_stopped.load(Ordering::Relaxed) {
                println!("{number} queries in the flood");
                return;
            }
        }
    });
    Running { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), stop, threads: vec![thread] }
}

/// Latencies of cluster names for a client at another address, and the number of queries without an answer.
fn measure(port: u16, time: Duration) -> (Vec<Duration>, usize) {
    let (mut latencies, mut lost) = (Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < time {
        // A new port each time, so that all threads of the server are measured.
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
        socket.set_read_timeout(Some(LOST)).unwrap();
        let sent = Instant::now();
        socket.send_to(&question(7, CLUSTER_NAME), (Ipv4Addr::LOCALHOST, port)).unwrap();
        let mut buffer = [0; 512];
        match receive(&socket, &mut buffer) {
            Ok(length) if buffer[3] & 15 == 0 && buffer[..length].ends_with(&[10, 96, 0, 10]) => {
                latencies.push(sent.elapsed());
            }
            _ => lost += 1,
        }
        thread::park_timeout(Duration::from_millis(4));
    }
    latencies.sort_unstable();
    (latencies, lost)
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn survives(upstream: Upstream) {
    let other = start_upstream(upstream);
    let server = Server::start(&cluster(), &["--upstream", &other.address.to_string()]);
    let before = server.peak_resident();
    let flood = flood(server.port());
    let (latencies, lost) = measure(server.port(), FLOOD);
    drop(flood);
    let after = server.peak_resident();
    assert!(!latencies.is_empty(), "{lost} lost");
    println!(
        "{upstream:?} upstream: {} KiB resident before, {} KiB at the peak; {} cluster names, {lost} lost, p50 {:?}, p99 {:?}",
        before >> 10,
        after >> 10,
        latencies.len(),
        percentile(&latencies, 50),
        percentile(&latencies, 99),
    );
    assert!(after < MAX_RESIDENT, "{} MiB resident", after >> 20);
    assert!(latencies.len() > 5 * lost, "{} answered, {lost} lost", latencies.len());
    assert!(percentile(&latencies, 50) < MAX_LATENCY, "{latencies:?}");
}

#[test]
fn a_flood_with_a_silent_upstream() {
    survives(Upstream::Silent);
}

#[test]
fn a_flood_with_a_slow_upstream() {
    survives(Upstream::Slow);
}

#[test]
fn a_flood_with_a_lying_upstream() {
    survives(Upstream::Lying);
}

#[test]
fn a_flood_with_answers_of_thousands_of_records() {
    survives(Upstream::Lavish(2000));
}

/// The owner of a domain needs no flood to fill a cache that counts entries only.
#[test]
fn large_answers_fill_the_cache_up_to_its_budget() {
    let upstream = start_upstream(Upstream::Lavish(500));
    let server = Server::start(&cluster(), &["--upstream", &upstream.address.to_string()]);
    let before = server.peak_resident();
    let padding = ["x".repeat(60), "y".repeat(60), "z".repeat(60)].join(".");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for number in 0..LARGE_ANSWERS {
        let message = question(number, &format!("{number}.{padding}.large.example"));
        socket.send_to(&message, (Ipv4Addr::LOCALHOST, server.port())).unwrap();
        let mut buffer = [0; 4096];
        receive(&socket, &mut buffer).unwrap();
        assert_eq!(buffer[3] & 15, 0);
    }
    let after = server.peak_resident();
    println!("{LARGE_ANSWERS} large answers: {} KiB resident before, {} KiB at the peak", before >> 10, after >> 10);
    assert!(after < MAX_RESIDENT, "{} MiB resident", after >> 20);
}

/// More connections than the server allows, all idle, from one client: another client still gets TCP.
#[test]
fn hoarded_connections_make_room_for_another_client() {
    let server = Server::start(&cluster(), &["--upstream", "none"]);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    let hoard: Vec<TcpStream> = (0..1500).filter_map(|_| TcpStream::connect(at).ok()).collect();
    assert!(hoard.len() > 1000, "{} connections", hoard.len());
    let printed = server.dig(&["+tcp", "+short", "-b", "127.0.0.2", "+time=5", CLUSTER_NAME]);
    assert_eq!(printed.trim(), "10.96.0.10");
    let resident = server.peak_resident();
    println!("{} hoarded connections: {} KiB at the peak", hoard.len(), resident >> 10);
    assert!(resident < MAX_RESIDENT, "{} MiB resident", resident >> 20);
}
