//! ebpf mode starts where a version with another layout of the maps has run: its own maps are filled beside the old ones, and its
//! programs replace the old ones in their links.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use portolan_testkit::{Lab, Protocol};

use crate::ebpf::{FLAGS, NODE_PORT, POD_A3, maps, pins, running};
use crate::node::{WEB, service, udp_service};
use crate::poll::until;
use crate::traffic::Traffic;

const CLIENT: &str = "pod-a3";
const DNS: &str = "10.96.0.53:80";
/// So many Services take a while to write.
const MANY: u32 = 300;

/// What a version with another layout leaves: maps of that version, and a hook that this version does not have.
fn age(pins: &Path) {
    fs::rename(maps(pins), pins.join("maps-0")).unwrap();
    fs::rename(pins.join("links/getpeername6"), pins.join("links/former")).unwrap();
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn many_services() -> String {
    let one = |number: u32| {
        let address = format!("10.97.{}.{}", number / 250, number % 250 + 1);
        service(&format!("many-{number}"), &address, "type: ClusterIP", &["10.244.1.2", "10.244.2.2"])
    };
    (0..MANY).map(one).collect::<Vec<_>>().join("---\n")
}

/// Connections to a node port, one after the other, and the sources that the endpoints see: the rules masquerade, and hooks do
/// not.
struct Sources {
    is_over: Arc<AtomicBool>,
    seen: JoinHandle<Vec<String>>,
}

impl Sources {
    fn watch(lab: &Arc<Lab>) -> Self {
        let (is_over, lab) = (Arc::new(AtomicBool::new(false)), lab.clone());
        let until = is_over.clone();
        let connect = move || {
            let mut seen = Vec::new();
            while !until.load(Ordering::Relaxed) {
                seen.push(seen_source());
            }
            seen
        };
        Self { is_over, seen: thread::spawn(move || lab.host(CLIENT).run(connect)) }
    }

    fn stop(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.seen.join().unwrap()
    }
}

/// An endpoint answers with its name and the source.
fn seen_source() -> String {
    let stream = TcpStream::connect(NODE_PORT).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn maps_of_another_layout_are_replaced_without_a_connection_past_the_hooks() {
    let mut node = running();
    node.write("many.yaml", &many_services());
    node.settle();
    let pins = pins(&node).expect("the daemon has pinned its hooks");
    let (found, links, traffic) = (names(&pins), names(&pins.join("links")), Traffic::start(&node));
    node.kill();
    age(&pins);
    let sources = Sources::watch(&node.lab);
    node.start_with(&FLAGS);
    traffic.go_on();
    let seen = sources.stop();
    let masqueraded = seen.iter().filter(|source| *source != POD_A3).count();
    assert!(seen.len() > 20 && masqueraded == 0, "{masqueraded} of {} connections met no hook", seen.len());
    traffic.stop_without_failures();
    assert_eq!(names(&pins), found, "the old maps are gone");
    assert_eq!(names(&pins.join("links")), links);
}

/// A socket that the old programs have translated: its peer, and the sender of a reply that it has not read yet.
#[test]
fn sockets_keep_their_translation_with_the_maps_of_another_layout() {
    let mut node = running();
    node.serve(&["10.244.1.2:8080"], Protocol::Udp);
    node.write("dns.yaml", &udp_service("dns", "10.96.0.53", &["10.244.1.2"]));
    node.settle();
    let (stream, socket) = node.lab.host(CLIENT).run(|| {
        let socket = UdpSocket::bind("10.244.1.4:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        (TcpStream::connect(WEB).unwrap(), socket)
    });
    until("the reply is there", || {
        node.lab.host(CLIENT).run(|| socket.send_to(b"hello", DNS)).unwrap();
        socket.peek_from(&mut [0; 100]).is_ok()
    });
    node.kill();
    age(&pins(&node).expect("the daemon has pinned its hooks"));
    node.start_with(&FLAGS);
    assert_eq!(stream.peer_addr().unwrap(), address(WEB));
    assert_eq!(socket.recv_from(&mut [0; 100]).unwrap().1, address(DNS));
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}
