//! Abusive clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use portolan_dns::Config;
use portolan_dns::wire::kind;

use super::support::{Running, SHORT, addresses, exchange, forwarding_to, query, question, raw, receive, until};
use super::upstream::{Behaviour, Upstream};

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
    let page = running.resolver.metrics_page("");
    assert!(page.contains("coredns_panics_total 0"));
    for rcode in ["FORMERR", "NOTIMP"] {
        assert!(page.contains(&format!("rcode=\"{rcode}\",server=\"\"")), "{rcode} is counted: {page}");
    }
}

#[test]
fn a_flood_from_one_client_is_held_back() {
    let running = Running::start(Config { rate_limit: Some(50), ..Config::default() });
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let message = question(HELLO, kind::A);
    (0..400).for_each(|_| drop(socket.send_to(&message, running.address)));
    let (mut whole, mut cut, mut buffer) = (0, 0, [0; 512]);
    while let Ok(length) = receive(&socket, &mut buffer) {
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

/// Slow queries of a connection do not hold up the others, and answers come as they are ready.
#[test]
fn pipelined_queries_are_answered_as_they_come() {
    let upstream = Upstream::start(Behaviour::default());
    upstream.fall_silent(true);
    let running = Running::start(forwarding_to(&[upstream.address]));
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream.set_read_timeout(Some(SHORT)).unwrap();
    let names = ["slow-1.example", "slow-2.example", HELLO];
    for (id, name) in (0u8..).zip(names) {
        let mut message = question(name, kind::A);
        message[1] = id;
        stream.write_all(&[&(message.len() as u16).to_be_bytes()[..], &message].concat()).unwrap();
    }
    assert_eq!(answer_id(&mut stream), 2, "the cluster name does not wait");
    until("both queries are in flight", || upstream.queries().len() >= 2);
    let mut rest = [answer_id(&mut stream), answer_id(&mut stream)];
    rest.sort_unstable();
    assert_eq!(rest, [0, 1]);
}

fn answer_id(stream: &mut TcpStream) -> u8 {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).expect("an answer");
    answer[1]
}

/// The upstream query of a client that is gone goes on for the others.
#[test]
fn a_client_that_leaves_does_not_fail_the_same_query_of_another() {
    let upstream = Upstream::start(Behaviour { delay: Duration::from_millis(700), ttl: 60, ..Behaviour::default() });
    let mut config = forwarding_to(&[upstream.address]);
    config.forward.server_timeout = Duration::from_secs(5);
    let running = Running::start(config);
    let message = question("shared.example", kind::A);
    let mut first = TcpStream::connect(running.address).unwrap();
    first.write_all(&[&(message.len() as u16).to_be_bytes()[..], &message].concat()).unwrap();
    until("the query is in flight", || !upstream.queries().is_empty());
    let address = running.address;
    let second = std::thread::spawn(move || query(address, &question("shared.example", kind::A), SHORT));
    until("the second query waits", || running.resolver.metrics_page("").contains("portolan_dns_waiting_queries 2"));
    drop(first);
    assert_eq!(second.join().unwrap().unwrap().answers.len(), 1);
}

#[test]
fn one_client_does_not_take_all_connections() {
    let running = Running::start(Config::default());
    let hoard: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    let mut active = TcpStream::connect(running.address).unwrap();
    for _ in 0..3 {
        exchange(&mut active, &question(HELLO, kind::A));
    }
    // The idlest connections have made room: the first is closed, the one in use is not.
    let mut octet = [0];
    hoard[0].set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!((&hoard[0]).read(&mut octet).unwrap_or(0), 0);
    let more: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    exchange(&mut active, &question(HELLO, kind::A));
    drop(more);
}
