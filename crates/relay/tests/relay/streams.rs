//! What happens to the bytes of a TCP connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use portolan_model::{Family, Protocol};

use crate::support::{
    accept, assert_echo, connect, counters, name_from, named, named_at, relay, reset, server, to, until, web,
};

#[test]
fn bytes_go_both_ways_and_are_counted() {
    let relay = relay();
    let web = web(&relay, to(&[named(b'a')]));
    let mut client = connect(web);
    assert_eq!(name_from(&mut client).unwrap(), 'a');
    assert_echo(&mut client, b"hello");
    assert_echo(&mut client, &[7; 100_000]);
    let seen = counters(&relay);
    assert_eq!((seen.connections, seen.active), (1, 1));
    until("every byte is counted", || {
        let seen = counters(&relay);
        (seen.bytes_from_clients, seen.bytes_to_clients) == (100_005, 100_006)
    });
    drop(client);
    until("the connection has ended", || relay.active() == 0 && counters(&relay).active == 0);
}

#[test]
fn open_connections_are_listed_and_counted_by_endpoint() {
    let relay = relay();
    let (first, second) = (named(b'a'), named(b'b'));
    let web = web(&relay, to(&[first, second]));
    let mut clients = [(); 3].map(|()| connect(web));
    clients.iter_mut().for_each(|client| _ = name_from(client).unwrap());
    assert_echo(&mut clients[0], b"hello");
    let mut open = relay.connections(10).unwrap();
    open.sort_by_key(|carried| carried.client);
    let mut expected = clients.each_ref().map(|client| client.local_addr().unwrap());
    expected.sort();
    assert_eq!(open.iter().map(|carried| carried.client).collect::<Vec<_>>(), expected);
    assert!(open.iter().all(|carried| carried.listener == "web" && [first, second].contains(&carried.endpoint)));
    let asked = open.iter().find(|carried| carried.client == clients[0].local_addr().unwrap()).unwrap();
    assert_eq!((asked.bytes_from_client, asked.bytes_to_client), (5, 6));
    assert_eq!(relay.connections(2).unwrap().len(), 2, "no more than asked for");
    let of = |endpoint| {
        let all = relay.endpoint_counters().into_iter();
        all.filter(|it| it.0 == "web" && it.1 == endpoint).map(|it| it.2.connections).sum::<u64>()
    };
    assert_eq!((of(first) + of(second), of(first).min(of(second))), (3, 1));
    relay.set_targets("web", to(&[second])).unwrap();
    assert!(of(first) > 0, "it still has connections");
    drop(clients);
    until("they have ended", || relay.active() == 0);
    assert_eq!(relay.connections(10).unwrap(), []);
    relay.set_targets("web", to(&[second])).unwrap();
    assert_eq!(of(first), 0, "it is forgotten");
}

#[test]
fn a_client_that_has_said_all_still_hears_the_answer() {
    let relay = relay();
    let (listener, address) = server();
    let mut client = connect(web(&relay, to(&[address])));
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut server = accept(&listener);
    assert_eq!(read_all(&mut server), b"question");
    server.write_all(b"answer").unwrap();
    drop(server);
    assert_eq!(read_all(&mut client), b"answer");
    until("the connection has ended", || relay.active() == 0);
}

#[test]
fn a_server_that_has_said_all_still_hears_the_client() {
    let relay = relay();
    let (listener, address) = server();
    let mut client = connect(web(&relay, to(&[address])));
    let mut server = accept(&listener);
    server.write_all(b"greeting").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut client), b"greeting");
    client.write_all(b"thanks").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), b"thanks");
    until("the connection has ended", || relay.active() == 0);
}

#[test]
fn a_reset_by_the_server_is_passed_on() {
    let relay = relay();
    let (listener, address) = server();
    let mut client = connect(web(&relay, to(&[address])));
    reset(accept(&listener));
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("the connection has ended", || relay.active() == 0);
}

#[test]
fn a_reset_by_the_client_is_passed_on() {
    let relay = relay();
    let (listener, address) = server();
    let client = connect(web(&relay, to(&[address])));
    let mut server = accept(&listener);
    reset(client);
    let error = server.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("the connection has ended", || relay.active() == 0);
}

const MUCH: usize = 64 << 20;

#[test]
fn a_slow_reader_holds_the_writer_back_and_gets_every_byte() {
    let relay = relay();
    let (listener, address) = server();
    let mut client = connect(web(&relay, to(&[address])));
    let writer = std::thread::spawn(move || write_much(&mut client));
    let mut server = accept(&listener);
    let mut before = 0;
    until("nothing moves because nobody reads", || {
        let now = counters(&relay).bytes_from_clients;
        now > 0 && std::mem::replace(&mut before, now) == now
    });
    assert!(before < MUCH as u64, "the writer is held back");
    let read = checksum_in_small_pieces(&mut server);
    assert_eq!(read, writer.join().unwrap());
    until("every byte is counted", || counters(&relay).bytes_from_clients == MUCH as u64);
}

#[test]
fn much_goes_both_ways_at_once() {
    let relay = relay();
    let (listener, address) = server();
    let mut client = connect(web(&relay, to(&[address])));
    let mut server = accept(&listener);
    let (mut also_client, mut also_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let up = std::thread::spawn(move || write_much(&mut client));
    let down = std::thread::spawn(move || write_much(&mut server));
    let heard = std::thread::spawn(move || checksum_in_small_pieces(&mut also_client));
    assert_eq!(checksum_in_small_pieces(&mut also_server), up.join().unwrap());
    assert_eq!(heard.join().unwrap(), down.join().unwrap());
}

#[test]
fn a_thousand_connections_at_once() {
    let relay = relay();
    let (listener, address) = server();
    let echoing = std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..1000).map(|_| accept(&listener)).collect();
        streams.iter_mut().for_each(echo_number);
        streams
    });
    let web = web(&relay, to(&[address]));
    let mut clients: Vec<TcpStream> = (0..1000).map(|_| connect(web)).collect();
    let numbered = |clients: &mut Vec<TcpStream>, act: fn(&mut TcpStream, u32)| {
        (0..).zip(clients.iter_mut()).for_each(|(number, client)| act(client, number));
    };
    numbered(&mut clients, |client, number| client.write_all(&number.to_be_bytes()).unwrap());
    numbered(&mut clients, |client, number| assert_eq!(read_number(client), number.to_be_bytes()));
    assert_eq!(relay.active(), 1000);
    drop((clients, echoing.join().unwrap()));
    until("all have ended", || relay.active() == 0);
}

#[test]
fn ipv6_is_the_same() {
    let relay = relay();
    let port = relay.listen("web", Protocol::Tcp, Family::V6).unwrap();
    relay.set_targets("web", to(&[named_at(b's', "[::1]:0")])).unwrap();
    let mut client = connect(format!("[::1]:{port}").parse().unwrap());
    assert_eq!(name_from(&mut client).unwrap(), 's');
    assert_echo(&mut client, b"hello");
}

fn echo_number(stream: &mut TcpStream) {
    let number = read_number(stream);
    stream.write_all(&number).unwrap();
}

fn read_number(stream: &mut TcpStream) -> [u8; 4] {
    let mut number = [0; 4];
    stream.read_exact(&mut number).unwrap();
    number
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Writes what repeats only after long, and returns its checksum.
fn write_much(stream: &mut TcpStream) -> u64 {
    let (mut sum, mut state) = (0, 1_u64);
    for _ in 0..MUCH / 65_536 {
        let piece: Vec<u8> = (0..8192).flat_map(|_| next(&mut state).to_be_bytes()).collect();
        sum = checksum(sum, &piece);
        stream.write_all(&piece).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    sum
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state
}

fn checksum_in_small_pieces(stream: &mut TcpStream) -> u64 {
    let (mut sum, mut buffer) = (0, [0; 8000]);
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return sum,
            length => sum = checksum(sum, &buffer[..length]),
        }
    }
}

/// Depends on every byte and its place.
fn checksum(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5))
}
