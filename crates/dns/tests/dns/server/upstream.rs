//! A small DNS server that tells what it was asked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use portolan_dns::wire::{Builder, Data, Name, Query, Rcode, Section, flag, kind};

/// What it does beside answering `192.0.2.N` to everything but names below `missing.`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// The last octet of its answers.
    pub(crate) octet: u8,
    /// Answers by UDP are cut.
    pub(crate) truncates: bool,
    /// Names are sent back in lower case.
    pub(crate) forgets_case: bool,
    /// A wrong answer comes before the right one.
    pub(crate) is_impersonated: bool,
    /// The names below this suffix exist; all, if there is none.
    pub(crate) only_below: Option<&'static str>,
    pub(crate) ttl: u32,
}

/// Messages, who sent them, and whether by TCP.
type Request = Mutex<Vec<(Vec<u8>, SocketAddr, bool)>>;

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    asked: Arc<Request>,
    silent: Arc<AtomicBool>,
}

impl Upstream {
    pub(crate) fn start(manners: Manners) -> Self {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = tcp.local_addr().expect("an address");
        let udp = UdpSocket::bind(address).expect("the same port");
        let upstream = Self { address, asked: Arc::default(), silent: Arc::default() };
        let (asked, silent) = (upstream.asked.clone(), upstream.silent.clone());
        thread::spawn(move || serve_udp(&udp, manners, &asked, &silent));
        let (asked, silent) = (upstream.asked.clone(), upstream.silent.clone());
        thread::spawn(move || serve_tcp(&tcp, manners, &asked, &silent));
        upstream
    }

    /// From now on it takes questions and answers none, or answers again.
    pub(crate) fn fall_silent(&self, is_silent: bool) {
        self.silent.store(is_silent, Ordering::SeqCst);
    }

    /// The names that were asked for, as they were written; questions about the root are probes.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("nobody panics");
        let names = asked.iter().filter_map(|(message, ..)| Some(Query::parse(message).ok()?.name));
        names.filter(|name| !name.is_root()).map(|name| name.to_string()).collect()
    }

    pub(crate) fn messages(&self) -> Vec<(Vec<u8>, SocketAddr, bool)> {
        self.asked.lock().expect("nobody panics").clone()
    }
}

fn serve_udp(socket: &UdpSocket, manners: Manners, asked: &Request, silent: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        asked.lock().expect("nobody panics").push((buffer[..length].to_vec(), from, false));
        if silent.load(Ordering::SeqCst) {
            continue;
        }
        if manners.is_impersonated {
            let mut forgery = answer(&buffer[..length], Manners { octet: 66, ..manners });
            forgery[0] ^= 1;
            _ = socket.send_to(&forgery, from);
        }
        let mut answer = answer(&buffer[..length], manners);
        if manners.truncates {
            answer.truncate(length - 11);
            answer[2] |= (flag::TRUNCATED >> 8) as u8;
            answer[6..12].fill(0);
        }
        _ = socket.send_to(&answer, from);
    }
}

fn serve_tcp(listener: &TcpListener, manners: Manners, asked: &Request, silent: &AtomicBool) {
    while let Ok((mut stream, from)) = listener.accept() {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() || silent.load(Ordering::SeqCst) {
            continue;
        }
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        _ = stream.read_exact(&mut message);
        asked.lock().expect("nobody panics").push((message.clone(), from, true));
        let answer = answer(&message, manners);
        let length = (answer.len() as u16).to_be_bytes();
        _ = stream.write_all(&[&length[..], &answer].concat());
    }
}

fn answer(message: &[u8], manners: Manners) -> Vec<u8> {
    let query = Query::parse(message).expect("only good questions are passed on");
    let mut out = Vec::new();
    let mut builder = Builder::new(&query, 65_535, &mut out);
    let exists = |suffix: &str| query.name.is_within(&Name::from_text(suffix).expect("a name"));
    if exists("missing") || manners.only_below.is_some_and(|suffix| !exists(suffix)) {
        let soa = [&b"\x01a\x00\x01b\x00"[..], &[0, 0, 0, 1].repeat(4), &manners.ttl.to_be_bytes()].concat();
        builder.record(Section::Authority, b"\0", kind::SOA, manners.ttl, Data::Raw(&soa));
        builder.rcode(Rcode::NX_DOMAIN);
    } else if query.kind == kind::A {
        let data = [192, 0, 2, manners.octet];
        builder.record(Section::Answer, query.name.as_bytes(), kind::A, manners.ttl, Data::Raw(&data));
    }
    builder.set(flag::RECURSION_AVAILABLE);
    builder.finish();
    if manners.forgets_case {
        out[12..12 + query.name.as_bytes().len()].make_ascii_lowercase();
    }
    out
}
