//! One relay follows another, and no client notices.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use portolan_model::{Family, Protocol};
use portolan_relay::{Error, Limits, Relay, receive_sockets, send_sockets};

use crate::support::{
    ask, assert_echo, connect, limits, name_from, named, named_udp, refusing, relay, to, udp_client, until, web, who,
};

fn adopt_all(relay: &Relay, stream: &UnixStream) {
    for (name, protocol, family, socket) in receive_sockets(stream).unwrap() {
        relay.adopt(&name, protocol, family, socket).unwrap();
    }
}

#[test]
fn clients_in_the_queue_are_served_by_the_next() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (old, new) = (relay(), relay());
    let web = web(&old, to(&[named(b'a')]));
    let mut before = connect(web);
    assert_eq!(name_from(&mut before).unwrap(), 'a');

    send_sockets(&ours, &old.sockets().unwrap()).unwrap();
    old.stop_accepting().unwrap();
    let mut between: Vec<TcpStream> = (0..50).map(|_| connect(web)).collect();
    assert_eq!(old.active(), 1, "the old one takes nobody any more");
    adopt_all(&new, &theirs);
    new.set_targets("web", to(&[named(b'b')])).unwrap();

    for client in &mut between {
        assert_eq!(name_from(client).unwrap(), 'b');
    }
    assert_eq!(who(web), 'b');
    assert_echo(&mut before, b"still with the old one");
    drop(before);
    until("the old one has nothing left to do", || old.active() == 0);
    drop(old);
    assert_eq!(who(web), 'b');
}

#[test]
fn while_both_accept_nobody_is_lost() {
    let (old, new) = (relay(), relay());
    let web = web(&old, to(&[named(b'a')]));
    let (ours, theirs) = UnixStream::pair().unwrap();
    send_sockets(&ours, &old.sockets().unwrap()).unwrap();
    let clients = std::thread::spawn(move || (0..500).map(|_| who(web)).collect::<String>());
    until("the old one has had clients", || old.counters()[0].1.connections > 10);
    adopt_all(&new, &theirs);
    new.set_targets("web", to(&[named(b'b')])).unwrap();
    old.stop_accepting().unwrap();
    let seen = clients.join().unwrap();
    assert!(seen.starts_with('a') && seen.ends_with('b'), "{seen}");
}

#[test]
fn datagrams_are_answered_before_and_after() {
    let patient = || Relay::start(Limits { udp_idle: Duration::from_secs(600), ..limits() }).unwrap();
    let (old, new) = (patient(), patient());
    let port = old.listen("dns", Protocol::Udp, Family::V4).unwrap();
    old.set_targets("dns", to(&[named_udp(b'a', "127.0.0.1:0")])).unwrap();
    let client = udp_client("127.0.0.1:0", SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(ask(&client, "?"), "a?");
    let (ours, theirs) = UnixStream::pair().unwrap();
    send_sockets(&ours, &old.sockets().unwrap()).unwrap();
    old.stop_accepting().unwrap();
    adopt_all(&new, &theirs);
    new.set_targets("dns", to(&[named_udp(b'b', "127.0.0.1:0")])).unwrap();
    assert_eq!(ask(&client, "?"), "b?");
}

#[test]
fn a_socket_must_be_what_its_description_says() {
    let relay = relay();
    let refused =
        |protocol, family, socket| matches!(relay.adopt("x", protocol, family, socket), Err(Error::Malformed { .. }));
    let udp = || UdpSocket::bind("127.0.0.1:0").unwrap().into();
    assert!(refused(Protocol::Tcp, Family::V4, udp()));
    assert!(refused(Protocol::Udp, Family::V6, udp()));
    assert!(refused(Protocol::Tcp, Family::V4, refusing().0.into()), "it does not listen");
}

#[test]
fn a_name_is_adopted_once() {
    let (old, new) = (relay(), relay());
    web(&old, to(&[]));
    let mut twice = old.sockets().unwrap();
    twice.extend(old.sockets().unwrap());
    let outcomes = twice.into_iter().map(|(name, protocol, family, socket)| new.adopt(&name, protocol, family, socket));
    let outcomes: Vec<Result<u16, Error>> = outcomes.collect();
    assert!(matches!(outcomes[..], [Ok(_), Err(Error::Taken { .. })]));
}
