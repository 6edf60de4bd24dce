//! Many queries while Services are created, deleted and changed, and while the server is killed and restarted: no wrong
//! answer, and none missing except for queries in flight at a kill.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::server::{Server, receive, until};

/// `CHURN_QUERIES=1000000` for the long run.
const USUAL: u64 = 60_000;
const RESTARTS: u64 = 3;
const NAMES: u64 = 100;
const WINDOW: u16 = 32;

/// The valid range of manifest versions: answers from before `confirmed` are stale, those after `written` are
/// impossible.
#[derive(Default)]
struct Truth {
    confirmed: AtomicU64,
    written: AtomicU64,
    stop: AtomicBool,
}

/// Whether the Service exists in that version, and at which of its two addresses.
fn state(name: u64, version: u64) -> Option<Ipv4Addr> {
    let dice = (name * 2_654_435_761 + version * 40_503).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    (dice > 3).then(|| Ipv4Addr::new(10, 96, 1 + (dice % 2) as u8, name as u8))
}

fn manifests(version: u64) -> String {
    let services = (0..NAMES).filter_map(|name| Some((name, state(name, version)?)));
    let service = |name: String, address: Ipv4Addr| {
        format!(
            "kind: Service\nmetadata: {{name: {name}}}\nspec: {{clusterIP: {address}, ports: [{{port: 80}}]}}\n---\n"
        )
    };
    let marker = service(format!("v{version}"), Ipv4Addr::new(10, 96, 200, 1));
    services.map(|(name, address)| service(format!("s{name}"), address)).chain([marker]).collect()
}

fn write(folder: &Path, version: u64) {
    fs::write(folder.join("draft"), manifests(version)).unwrap();
    fs::rename(folder.join("draft"), folder.join("all.yaml")).unwrap();
}

/// Writes one version after the other, each when the previous one is in force.
fn churn(folder: &Path, port: u16, truth: &Truth) {
    while !truth.stop.load(Ordering::SeqCst) {
        let version = truth.written.load(Ordering::SeqCst) + 1;
        truth.written.store(version, Ordering::SeqCst);
        write(folder, version);
        let name = format!("v{version}");
        until("the new version is in force", || {
            truth.stop.load(Ordering::SeqCst) || query_once(port, &name).is_some_and(|it| it.is_some())
        });
        truth.confirmed.store(version, Ordering::SeqCst);
    }
}

fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8]);
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(b"\x07default\x03svc\x07cluster\x05local\0\0\x01\0\x01");
    message
}

/// The id and the answer: an address, or none. Failures give `None`.
fn read(answer: &[u8]) -> Option<(u16, Option<Ipv4Addr>)> {
    let id = u16::from_be_bytes([answer[0], answer[1]]);
    match answer[3] & 0x0f {
        0 => Some((id, Some(<[u8; 4]>::try_from(&answer[answer.len() - 4..]).ok()?.into()))),
        3 => Some((id, None)),
        _ => None,
    }
}

fn query_once(port: u16, name: &str) -> Option<Option<Ipv4Addr>> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
    socket.send_to(&question(1, name), ("127.0.0.1", port)).ok()?;
    let mut buffer = [0; 512];
    let length = receive(&socket, &mut buffer).ok()?;
    read(&buffer[..length]).map(|(_, answer)| answer)
}

/// A client with many queries in flight.
struct Client<'a> {
    socket: UdpSocket,
    truth: &'a Truth,
    /// The query of each id, and the oldest version that its answer may be from.
    in_flight: HashMap<u16, (u64, u64)>,
    next: u64,
    answered: u64,
    wrong: Vec<String>,
}

impl Client<'_> {
    fn send(&mut self) {
        let (id, name) = (self.next as u16, self.next * 31 % NAMES);
        self.next += 1;
        self.in_flight.insert(id, (name, self.truth.confirmed.load(Ordering::SeqCst)));
        self.socket.send(&question(id, &format!("s{name}"))).unwrap();
    }

    /// False after a timeout.
    fn receive(&mut self) -> bool {
        let mut buffer = [0; 512];
        let Ok(length) = receive(&self.socket, &mut buffer) else { return false };
        let newest = self.truth.written.load(Ordering::SeqCst);
        let answer = read(&buffer[..length]);
        let id = u16::from_be_bytes([buffer[0], buffer[1]]);
        let Some((name, oldest)) = self.in_flight.remove(&id) else { return true };
        self.answered += 1;
        let is_right =
            answer.is_some_and(|(_, answer)| (oldest..=newest).any(|version| state(name, version) == answer));
        if !is_right {
            self.wrong.push(format!("s{name} is answered with {answer:?} between versions {oldest} and {newest}"));
        }
        true
    }

    /// Drops the queries from before a restart, and late answers to them.
    fn forget(&mut self) {
        self.in_flight.clear();
        self.socket.set_nonblocking(true).unwrap();
        let mut buffer = [0; 512];
        while receive(&self.socket, &mut buffer).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
    }

    /// Sends queries until so many are answered. Returns the number of unanswered ones.
    fn query(&mut self, until_answered: u64) -> usize {
        while self.answered < until_answered {
            while self.in_flight.len() < usize::from(WINDOW) {
                self.send();
            }
            if !self.receive() {
                break;
            }
        }
        while !self.in_flight.is_empty() && self.receive() {}
        let lost = self.in_flight.len();
        self.in_flight.clear();
        lost
    }
}

#[test]
fn no_answer_is_wrong_and_none_is_missing() {
    let queries: u64 = std::env::var("CHURN_QUERIES").ok().and_then(|it| it.parse().ok()).unwrap_or(USUAL);
    let folder = tempfile::tempdir().unwrap();
    let truth = Truth::default();
    write(folder.path(), 0);
    let mut server = Server::start(folder.path(), &["--upstream", "none"]);
    let port: u16 = server.address.rsplit(':').next().unwrap().parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut client =
        Client { socket, truth: &truth, in_flight: HashMap::new(), next: 0, answered: 0, wrong: Vec::new() };
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| churn(folder.path(), port, &truth));
        for restart in 1..=RESTARTS {
            assert_eq!(client.query(queries * restart / (RESTARTS + 1)), 0, "queries without an answer");
            (0..WINDOW).for_each(|_| client.send());
            server.kill_and_start(folder.path(), port);
            // Queries in flight at the kill may be lost; late answers to them are ignored.
            client.forget();
        }
        assert_eq!(client.query(queries), 0, "queries without an answer");
        truth.stop.store(true, Ordering::SeqCst);
    });
    let versions = truth.written.load(Ordering::SeqCst);
    println!("{} answers, {versions} versions, {RESTARTS} restarts, {:?}", client.answered, start.elapsed());
    assert!(
        client.wrong.is_empty(),
        "{} wrong answers: {:?}",
        client.wrong.len(),
        &client.wrong[..client.wrong.len().min(5)]
    );
    assert!(versions > RESTARTS, "only {versions} versions");
}
