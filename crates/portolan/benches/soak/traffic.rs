//! Connections, datagrams and DNS queries, all the while.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use crate::cluster::{Cluster, tcp_services, udp_services};
use crate::daemon::DNS;
use crate::stage::{CLIENT, vip};

const TIMEOUT: Duration = Duration::from_secs(5);
const HELD: u32 = 40;
/// A flow may reach an endpoint that long after its removal: the API server, the watch, the sync, two walks of conntrack.
const STALE_AFTER: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Traffic {
    /// New connections, one after the other.
    pub(crate) connections: Tally,
    /// Bytes over connections that stay open.
    pub(crate) held: Tally,
    pub(crate) datagrams: Tally,
    pub(crate) queries: Tally,
    /// Datagrams that reached an endpoint long after its removal.
    pub(crate) stale: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) done: AtomicU64,
    /// When each that failed began.
    failed: Mutex<Vec<Instant>>,
}

impl Tally {
    fn add(&self, begin: Instant, has_worked: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if !has_worked {
            self.failed.lock().expect("no thread panics with it").push(begin);
        }
    }

    pub(crate) fn failed(&self) -> usize {
        self.failed.lock().expect("no thread panics with it").len()
    }

    /// When those that failed at another time began.
    pub(crate) fn failures_outside(&self, times: &[Range<Instant>]) -> Vec<Instant> {
        let failed = self.failed.lock().expect("no thread panics with it");
        failed.iter().filter(|begin| !times.iter().any(|time| time.contains(*begin))).copied().collect()
    }
}

impl Traffic {
    pub(crate) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, cluster: &'s Cluster, is_over: &'s AtomicBool) {
        let client = cluster.daemon.host(CLIENT);
        client.run(|| wait_until_served(tcp_services().end - 1));
        scope.spawn(|| client.run(|| self.connect(is_over)));
        scope.spawn(|| client.run(|| self.hold(is_over)));
        scope.spawn(|| client.run(|| self.send_datagrams(cluster, is_over)));
        scope.spawn(|| client.run(|| self.query(is_over)));
    }

    fn connect(&self, is_over: &AtomicBool) {
        let mut number = 0;
        while !is_over.load(Ordering::Relaxed) {
            number = (number + 617) % tcp_services().end;
            let begin = Instant::now();
            let outcome = connect(number);
            if let Err(error) = &outcome {
                eprintln!("{}: a new connection to Service s{number} failed: {error}", now());
            }
            self.connections.add(begin, outcome.is_ok());
            std::thread::sleep(Duration::from_millis(4));
        }
    }

    /// A connection that reached an endpoint that churns may end with it: that one is opened again, and not counted.
    fn hold(&self, is_over: &AtomicBool) {
        let mut held: Vec<(u32, TcpStream)> = (0..HELD).map(|index| staying(index * 37)).collect();
        while !is_over.load(Ordering::Relaxed) {
            for (number, connection) in &mut held {
                let begin = Instant::now();
                let has_worked = exchange_byte(connection);
                self.held.add(begin, has_worked.is_ok());
                if let Err(error) = has_worked {
                    eprintln!("{}: a connection to the endpoint of Service s{number} that stays broke: {error}", now());
                    *connection = staying(*number).1;
                }
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// From the same port all the time: the flow must move on with the endpoints.
    fn send_datagrams(&self, cluster: &Cluster, is_over: &AtomicBool) {
        let sockets: Vec<(u32, UdpSocket)> = udp_services().map(|number| (number, datagram_socket(number))).collect();
        while !is_over.load(Ordering::Relaxed) {
            for (number, socket) in &sockets {
                let begin = Instant::now();
                let answer = exchange_datagram(socket);
                self.datagrams.add(begin, answer.is_ok());
                if answer.is_ok_and(|address| cluster.endpoints.is_gone_for(*number, address, STALE_AFTER)) {
                    self.stale.fetch_add(1, Ordering::Relaxed);
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn query(&self, is_over: &AtomicBool) {
        let (mut number, mut was_answered) = (0, true);
        while !is_over.load(Ordering::Relaxed) {
            number = (number + 811) % tcp_services().end;
            let begin = Instant::now();
            let outcome = resolve(number);
            match &outcome {
                Err(reason) if was_answered => eprintln!("{}: no address of Service s{number} by DNS: {reason}", now()),
                Ok(()) if !was_answered => eprintln!("{}: Services have addresses by DNS again", now()),
                _ => {}
            }
            was_answered = outcome.is_ok();
            self.queries.add(begin, was_answered);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// As in the log of the daemon.
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn wait_until_served(number: u32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while connect(number).is_err() {
        assert!(Instant::now() < deadline, "the Services are not served");
    }
}

/// Reset at the end, so that no port stays in TIME_WAIT.
fn connect(number: u32) -> std::io::Result<Ipv4Addr> {
    let (connection, address) = open(number)?;
    set_socket_linger(&connection, Some(Duration::ZERO))?;
    Ok(address)
}

fn open(number: u32) -> std::io::Result<(TcpStream, Ipv4Addr)> {
    let mut connection = TcpStream::connect_timeout(&vip(number), TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    let mut octets = [0; 4];
    connection.read_exact(&mut octets)?;
    Ok((connection, octets.into()))
}

/// A connection to the endpoint of the Service that never goes.
fn staying(number: u32) -> (u32, TcpStream) {
    loop {
        if let Ok((connection, address)) = open(number)
            && u32::from(address) % 8 == crate::endpoints::STAYING
        {
            return (number, connection);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn exchange_byte(connection: &mut TcpStream) -> std::io::Result<()> {
    connection.write_all(b"x")?;
    let mut byte = [0];
    connection.read_exact(&mut byte)
}

fn datagram_socket(number: u32) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port is free");
    socket.connect(SocketAddr::new(vip(number).ip(), 80)).expect("there is a route");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("the time is not zero");
    socket
}

fn exchange_datagram(socket: &UdpSocket) -> std::io::Result<Ipv4Addr> {
    let mut octets = [0; 4];
    socket.send(b"x")?;
    socket.recv(&mut octets)?;
    Ok(octets.into())
}

/// Whether the name of a Service leads to its address. One more try, as every resolver makes.
fn resolve(number: u32) -> Result<(), String> {
    try_to_resolve(number).or_else(|_| try_to_resolve(number))
}

fn try_to_resolve(number: u32) -> Result<(), String> {
    let answer = ask(number).map_err(|error| error.to_string())?;
    let has_address = answer.windows(4).any(|it| it == octets_of(number));
    has_address
        .then_some(())
        .ok_or_else(|| format!("answer of {} bytes with response code {}", answer.len(), answer[3] & 15))
}

fn octets_of(number: u32) -> [u8; 4] {
    match vip(number) {
        SocketAddr::V4(address) => address.ip().octets(),
        SocketAddr::V6(_) => unreachable!("the Services have IPv4 addresses"),
    }
}

fn ask(number: u32) -> std::io::Result<Vec<u8>> {
    let mut question = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in [&*format!("s{number}"), "default", "svc", "cluster", "local"] {
        question.push(label.len() as u8);
        question.extend(label.bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((DNS, 53))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.send(&question)?;
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer)?;
    Ok(buffer[..length].to_vec())
}
