//! UDP.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use portolan_model::{Family, Protocol};
use portolan_relay::{Limits, Relay, Targets};

use crate::support::{ask, counters, limits, named_udp, to, udp_client, until};

const LOCAL: &str = "127.0.0.1:0";

/// Long enough for tests that are not about the end.
fn relay() -> Relay {
    Relay::start(Limits { udp_idle: Duration::from_secs(600), ..limits() }).unwrap()
}

fn dns(relay: &Relay, targets: Targets) -> SocketAddr {
    let port = relay.listen("dns", Protocol::Udp, Family::V4).unwrap();
    relay.set_targets("dns", targets).unwrap();
    ([127, 0, 0, 1], port).into()
}

#[test]
fn each_client_gets_its_own_answers() {
    let relay = relay();
    let dns = dns(&relay, to(&[named_udp(b'a', LOCAL), named_udp(b'b', LOCAL)]));
    let (first, second) = (udp_client(LOCAL, dns), udp_client(LOCAL, dns));
    assert_eq!((ask(&first, "one"), ask(&second, "two")), ("aone".to_owned(), "btwo".to_owned()));
    assert_eq!((ask(&first, "three"), ask(&second, "")), ("athree".to_owned(), "b".to_owned()));
    let seen = counters(&relay);
    assert_eq!((seen.connections, seen.active), (2, 2));
    until("every byte is counted", || {
        let seen = counters(&relay);
        (seen.bytes_from_clients, seen.bytes_to_clients) == (11, 15)
    });
}

#[test]
fn an_answer_comes_from_the_address_that_was_asked() {
    let relay = relay();
    let port = dns(&relay, to(&[named_udp(b'a', LOCAL)])).port();
    let client = udp_client("127.0.0.1:0", SocketAddr::from(([127, 0, 0, 77], port)));
    assert_eq!(ask(&client, "question"), "aquestion");
}

#[test]
fn a_large_datagram_stays_whole() {
    let relay = relay();
    let client = udp_client(LOCAL, dns(&relay, to(&[named_udp(b'a', LOCAL)])));
    let question = "x".repeat(60_000);
    assert_eq!(ask(&client, &question).len(), 60_001);
}

#[test]
fn an_idle_association_ends() {
    // Long enough for an answer on a busy machine: an answer that arrives after the end of its association is lost.
    let relay = Relay::start(Limits { udp_idle: Duration::from_secs(2), ..limits() }).unwrap();
    let client = udp_client(LOCAL, dns(&relay, to(&[named_udp(b'a', LOCAL), named_udp(b'b', LOCAL)])));
    assert_eq!(ask(&client, "question"), "aquestion");
    until("the association has ended", || relay.active() == 0);
    assert_eq!(ask(&client, "question"), "bquestion");
    assert_eq!(counters(&relay).connections, 2);
}

#[test]
fn an_endpoint_that_refuses_is_left() {
    let relay = relay();
    // Taken, and only for datagrams from somewhere else.
    let taken = UdpSocket::bind(LOCAL).unwrap();
    taken.connect("127.0.0.1:9").unwrap();
    let client = udp_client(LOCAL, dns(&relay, to(&[taken.local_addr().unwrap(), named_udp(b'b', LOCAL)])));
    client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut answer = [0; 10];
    until("another endpoint answers", || {
        client.send(b"?").unwrap();
        client.recv(&mut answer).is_ok()
    });
    assert_eq!(&answer[..2], b"b?");
    let other = udp_client(LOCAL, client.peer_addr().unwrap());
    assert_eq!(ask(&other, "?"), "b?", "others do not try it");
    assert_eq!(counters(&relay).dial_errors, 1);
}

#[test]
fn an_endpoint_that_is_removed_is_left_at_once() {
    let relay = relay();
    let client = udp_client(LOCAL, dns(&relay, to(&[named_udp(b'a', LOCAL)])));
    assert_eq!(ask(&client, "?"), "a?");
    relay.set_targets("dns", to(&[named_udp(b'b', LOCAL)])).unwrap();
    assert_eq!(ask(&client, "?"), "b?");
}

#[test]
fn affinity_holds_for_datagrams() {
    let relay = relay();
    let endpoints = vec![named_udp(b'a', LOCAL), named_udp(b'b', LOCAL)];
    let dns = dns(&relay, Targets { endpoints, affinity: Some(Duration::from_secs(3600)), ..Targets::default() });
    let seen: String = (0..4).map(|_| ask(&udp_client(LOCAL, dns), "")).collect();
    assert_eq!(seen, "aaaa");
}

#[test]
fn at_the_limit_datagrams_are_lost_and_counted() {
    let relay = Relay::start(Limits { connections: 1, udp_idle: Duration::from_secs(600), ..limits() }).unwrap();
    let dns = dns(&relay, to(&[named_udp(b'a', LOCAL)]));
    let (first, second) = (udp_client(LOCAL, dns), udp_client(LOCAL, dns));
    assert_eq!(ask(&first, "?"), "a?");
    second.send(b"?").unwrap();
    until("it is counted", || counters(&relay).refused_at_limit == 1);
    assert_eq!(ask(&first, "!"), "a!");
}

#[test]
fn ipv6_is_the_same() {
    let relay = relay();
    let port = relay.listen("dns", Protocol::Udp, Family::V6).unwrap();
    relay.set_targets("dns", to(&[named_udp(b's', "[::1]:0")])).unwrap();
    let client = udp_client("[::1]:0", format!("[::1]:{port}").parse().unwrap());
    assert_eq!(ask(&client, "?"), "s?");
}
