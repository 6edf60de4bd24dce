//! Abusive clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use portolan_dns::Config;
use portolan_dns::wire::kind;

use super::support::{Running, SHORT, addresses, question, raw};

const HELLO: &str = "hello-service.default.svc.cluster.local";

fn serves_others(running: &Running) {
    assert_eq!(addresses(&running.query(HELLO, kind::A)), [Ipv4Addr::new(10, 96, 0, 10)]);
}

#[test]
fn noise_is_answered_with_errors_or_not_at_all() {
    let running = Running::start(Config::default());
    let mut dice = 7u32;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for length in 0..2000usize {
        let noise: Vec<u8> = (0..length % 700)
            .map(|_| {
                dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (dice >> 24) as u8
            })
            .collect();
        socket.send_to(&noise, running.address).unwrap();
    }
    serves_others(&running);
    let mut update = question("cluster.local", kind::SOA);
    update[2] = 0x28;
    assert_eq!(raw(running.address, &update, SHORT).unwrap()[3] & 0x0f, 4);
    // A response is not answered: two servers would loop for ever.
    let mut answer = question(HELLO, kind::A);
    answer[2] |= 0x80;
    assert_eq!(raw(running.address, &answer, Duration::from_millis(100)), None);
    assert!(running.resolver.metrics_page("").contains("coredns_panics_total 0"));
}

#[test]
fn a_flood_from_one_client_is_held_back() {
    let running = Running::start(Config { rate_limit: Some(50), ..Config::default() });
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let message = question(HELLO, kind::A);
    (0..400).for_each(|_| drop(socket.send_to(&message, running.address)));
    let (mut whole, mut cut, mut buffer) = (0, 0, [0; 512]);
    while let Ok(length) = socket.recv(&mut buffer) {
        *(if buffer[2] & 2 == 0 { &mut whole } else { &mut cut }) += usize::from(length > 0);
    }
    assert!((50..100).contains(&whole), "{whole} answers");
    assert!(cut > 50 && whole + cut < 330, "{whole} answers, {cut} truncated");
    // A client with a real source address can use TCP.
    assert_eq!(running.query_by_tcp(HELLO, kind::A).answers.len(), 1);
}

#[test]
fn idle_connections_do_not_block_other_clients() {
    let running = Running::start(Config::default());
    let mut idle: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    idle[0].write_all(&[0xff]).unwrap();
    idle[1].write_all(&[0, 3, 1, 2, 3]).unwrap();
    assert_eq!(running.query_by_tcp(HELLO, kind::A).answers.len(), 1);
    let mut rest = Vec::new();
    assert_eq!(idle[1].read_to_end(&mut rest).unwrap(), 0, "an invalid query ends the connection");
}
