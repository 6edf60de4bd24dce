//! A small DNS server that records its queries.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use portolan_dns::wire::{Builder, Data, Name, Query, Rcode, Section, flag, kind};

/// Its behaviour besides answering `192.0.2.N` to all names but those below `missing.`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behaviour {
    /// The last octet of its answers.
    pub(crate) octet: u8,
    /// UDP answers are truncated.
    pub(crate) truncates: bool,
    /// Names are sent back in lower case.
    pub(crate) forgets_case: bool,
    /// A wrong answer comes before the right one.
    pub(crate) is_impersonated: bool,
    /// The names below this suffix exist; all names, if it is empty.
    pub(crate) only_below: Option<&'static str>,
    pub(crate) ttl: u32,
    /// UDP answers come after this time.
    pub(crate) delay: Duration,
    /// The first datagram of each sender is lost.
    pub(crate) loses_first: bool,
    /// UDP answers are this code in a header without a question.
    pub(crate) header_only: Option<Rcode>,
    /// Queries with an OPT record are FORMERR.
    pub(crate) rejects_edns: bool,
}

/// Messages, their senders, and whether over TCP.
type Request = Mutex<Vec<(Vec<u8>, SocketAddr, bool)>>;

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    queries: Arc<Request>,
    silent: Arc<AtomicBool>,
    failing: Arc<AtomicBool>,
}

impl Upstream {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = tcp.local_addr().expect("an address");
        let udp = UdpSocket::bind(address).expect("the same port");
        let upstream = Self { address, queries: Arc::default(), silent: Arc::default(), failing: Arc::default() };
        let (queries, silent, failing) = (upstream.queries.clone(), upstream.silent.clone(), upstream.failing.clone());
        thread::spawn(move || serve_udp(&udp, behaviour, &queries, &silent, &failing));
        let (queries, silent) = (upstream.queries.clone(), upstream.silent.clone());
        thread::spawn(move || serve_tcp(&tcp, behaviour, &queries, &silent));
        upstream
    }

    /// From now on it receives queries and answers none, or answers again.
    pub(crate) fn fall_silent(&self, is_silent: bool) {
        self.silent.store(is_silent, Ordering::SeqCst);
    }

    /// From now on it answers SERVFAIL over UDP.
    pub(crate) fn fail(&self) {
        self.failing.store(true, Ordering::SeqCst);
    }

    /// The queried names, in their original case; queries for the root are probes.
    pub(crate) fn queries(&self) -> Vec<String> {
        let queries = self.queries.lock().expect("no thread panics");
        let names = queries.iter().filter_map(|(message, ..)| Some(Query::parse(message).ok()?.name));
        names.filter(|name| !name.is_root()).map(|name| name.to_string()).collect()
    }

    pub(crate) fn messages(&self) -> Vec<(Vec<u8>, SocketAddr, bool)> {
        self.queries.lock().expect("no thread panics").clone()
    }
}

fn serve_udp(socket: &UdpSocket, behaviour: Behaviour, queries: &Request, silent: &AtomicBool, failing: &AtomicBool) {
    let mut senders = std::collections::HashSet::new();
    let mut buffer = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        queries.lock().expect("no thread panics").push((buffer[..length].to_vec(), from, false));
        let is_lost = behaviour.loses_first && senders.insert(from);
        if silent.load(Ordering::SeqCst) || is_lost {
            continue;
        }
        let has_opt = buffer[11] > 0;
        let header_only = behaviour.header_only.or((behaviour.rejects_edns && has_opt).then_some(Rcode::FORMAT_ERROR));
        if let Some(rcode) = header_only {
            _ = socket.send_to(&[buffer[0], buffer[1], 0x80, rcode.0 as u8, 0, 0, 0, 0, 0, 0, 0, 0], from);
            continue;
        }
        if behaviour.is_impersonated {
            let mut forgery = answer(&buffer[..length], Behaviour { octet: 66, ..behaviour });
            forgery[0] ^= 1;
            _ = socket.send_to(&forgery, from);
        }
        thread::park_timeout(behaviour.delay);
        let mut answer = answer(&buffer[..length], behaviour);
        if failing.load(Ordering::SeqCst) {
            answer[3] |= 2;
        }
        if behaviour.truncates {
            answer.truncate(length - 11);
            answer[2] |= (flag::TRUNCATED >> 8) as u8;
            answer[6..12].fill(0);
        }
        _ = socket.send_to(&answer, from);
    }
}

fn serve_tcp(listener: &TcpListener, behaviour: Behaviour, queries: &Request, silent: &AtomicBool) {
    while let Ok((mut stream, from)) = listener.accept() {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() || silent.load(Ordering::SeqCst) {
            continue;
        }
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        _ = stream.read_exact(&mut message);
        queries.lock().expect("no thread panics").push((message.clone(), from, true));
        let answer = answer(&message, behaviour);
        let length = (answer.len() as u16).to_be_bytes();
        _ = stream.write_all(&[&length[..], &answer].concat());
    }
}

fn answer(message: &[u8], behaviour: Behaviour) -> Vec<u8> {
    let query = Query::parse(message).expect("only valid queries are forwarded");
    let mut out = Vec::new();
    let mut builder = Builder::new(&query, 65_535, &mut out);
    let exists = |suffix: &str| query.name.is_within(&Name::from_text(suffix).expect("a name"));
    if exists("missing") || behaviour.only_below.is_some_and(|suffix| !exists(suffix)) {
        let soa = [&b"\x01a\x00\x01b\x00"[..], &[0, 0, 0, 1].repeat(4), &behaviour.ttl.to_be_bytes()].concat();
        builder.record(Section::Authority, b"\0", kind::SOA, behaviour.ttl, Data::Raw(&soa));
        builder.rcode(Rcode::NX_DOMAIN);
    } else if query.kind == kind::A {
        let data = [192, 0, 2, behaviour.octet];
        builder.record(Section::Answer, query.name.as_bytes(), kind::A, behaviour.ttl, Data::Raw(&data));
    }
    builder.set(flag::RECURSION_AVAILABLE);
    builder.finish();
    if behaviour.forgets_case {
        out[12..12 + query.name.as_bytes().len()].make_ascii_lowercase();
    }
    out
}
