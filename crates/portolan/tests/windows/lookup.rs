//! `portolan.exe dns`, by real queries.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use super::machine::Machine;

const PORT: u16 = 5354;
const NAME: &str = "web.default.svc.cluster.local";
/// The record at the end of an answer: type A, class IN, TTL 5, four bytes.
const RECORD: [u8; 14] = [0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 96, 0, 10];

/// A query for the address of a name.
fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).expect("a short label"));
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

fn ask_by_udp() -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    socket.send_to(&query(NAME), (Ipv4Addr::LOCALHOST, PORT)).ok()?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).ok()?;
    Some(answer[..length].to_vec())
}

fn ask_by_tcp() -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let query = query(NAME);
    let length = u16::try_from(query.len()).expect("a short query");
    stream.write_all(&[&length.to_be_bytes()[..], &query].concat()).ok()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn names_of_services_are_answered_until_ctrl_c() {
    let machine = Machine::new();
    let manifests = machine.manifests();
    let listen = format!("127.0.0.1:{PORT}");
    let server = machine.serve(&["dns", "--listen", &listen, "--manifests", &manifests, "--upstream", "none"]);
    let has_record = |answer: Option<Vec<u8>>| answer.is_some_and(|answer| answer.windows(14).any(|it| it == RECORD));
    machine.until_so(|| has_record(ask_by_udp()), || format!("{:?}", ask_by_udp()));
    machine.until_so(|| has_record(ask_by_tcp()), || format!("{:?}", ask_by_tcp()));
    let status = server.interrupt();
    assert!(status.success(), "{status}: {}", machine.log());
}
