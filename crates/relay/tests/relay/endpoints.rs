//! Which endpoint a client gets, and what happens when endpoints change or do not answer.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use portolan_model::{Family, Protocol};
use portolan_relay::{Error, Targets};
use socket2::{Domain, Socket, Type};

use crate::support::{
    PATIENCE, assert_echo, connect, counters, is_reset, name_from, named, named_for_one, refusing, relay, to, until,
    web, who,
};

const LONG: Option<Duration> = Some(Duration::from_secs(3600));

#[test]
fn endpoints_take_turns() {
    let relay = relay();
    let web = web(&relay, to(&[named(b'a'), named(b'b'), named(b'c')]));
    let seen: String = (0..6).map(|_| who(web)).collect();
    assert_eq!(seen, "abcabc");
}

#[test]
fn an_endpoint_that_refuses_is_skipped() {
    let relay = relay();
    let (_refusing, gone) = refusing();
    let web = web(&relay, to(&[gone, named(b'a'), named(b'b')]));
    let seen: String = (0..10).map(|_| who(web)).collect();
    assert!(seen.contains('a') && seen.contains('b'), "{seen}");
    let seen = counters(&relay);
    assert_eq!((seen.failed, seen.retries, seen.dial_errors), (0, 1, 1), "it is asked once and then avoided");
}

#[test]
fn an_endpoint_that_answers_again_is_used_again() {
    let relay = relay();
    let (socket, back) = refusing();
    let web = web(&relay, to(&[back]));
    assert!(is_reset(web));
    socket.listen(8).unwrap();
    let _client = connect(web);
    assert!(socket.accept().is_ok(), "doubtful ones are asked when there is no other");
}

#[test]
fn when_no_endpoint_answers_the_client_sees_it() {
    let relay = relay();
    let (_first, one) = refusing();
    let (_second, two) = refusing();
    assert!(is_reset(web(&relay, to(&[one, two]))));
    until("it is over", || relay.active() == 0);
    assert_eq!((counters(&relay).dial_errors, counters(&relay).failed), (2, 1));
}

#[test]
fn without_endpoints_the_client_sees_it() {
    let relay = relay();
    assert!(is_reset(web(&relay, to(&[]))));
}

#[test]
fn clients_wait_until_targets_are_known() {
    let relay = relay();
    let port = relay.listen("web", Protocol::Tcp, Family::V4).unwrap();
    let mut early = connect(([127, 0, 0, 1], port).into());
    relay.set_targets("web", to(&[named(b'a')])).unwrap();
    assert_eq!(name_from(&mut early).unwrap(), 'a');
}

#[test]
fn with_affinity_a_client_stays_with_its_endpoint() {
    let relay = relay();
    let endpoints = vec![named(b'a'), named(b'b')];
    let web = web(&relay, Targets { endpoints, affinity: LONG, ..Targets::default() });
    let seen: String = (0..5).map(|_| who(web)).collect();
    assert_eq!(seen, "aaaaa");
    let seen: String = (0..5).map(|_| name_from(&mut connect_from([127, 0, 0, 2], web)).unwrap()).collect();
    assert_eq!(seen, "bbbbb", "another client has the next turn, and stays there");
}

#[test]
fn with_affinity_a_client_moves_when_its_endpoint_is_gone() {
    let relay = relay();
    let endpoints = vec![named_for_one(b'a'), named(b'b'), named(b'c')];
    let web = web(&relay, Targets { endpoints, affinity: LONG, ..Targets::default() });
    let seen: String = (0..5).map(|_| who(web)).collect();
    assert_eq!(seen, "abbbb");
}

#[test]
fn affinity_ends_with_its_time() {
    let relay = relay();
    let endpoints = vec![named(b'a'), named(b'b')];
    let web = web(&relay, Targets { endpoints, affinity: Some(Duration::from_nanos(1)), ..Targets::default() });
    let seen: String = (0..4).map(|_| who(web)).collect();
    assert_eq!(seen, "abab");
}

#[test]
fn new_targets_are_for_new_connections() {
    let relay = relay();
    let web = web(&relay, to(&[named(b'a')]));
    let mut old = connect(web);
    assert_eq!(name_from(&mut old).unwrap(), 'a');
    relay.set_targets("web", to(&[named(b'b')])).unwrap();
    assert_eq!(who(web), 'b');
    assert_echo(&mut old, b"still here");
}

#[test]
fn after_a_close_connections_live_on_and_new_ones_are_refused() {
    let relay = relay();
    let web = web(&relay, to(&[named(b'a')]));
    let mut old = connect(web);
    assert_eq!(name_from(&mut old).unwrap(), 'a');
    relay.close("web").unwrap();
    let is_refused = || TcpStream::connect(web).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    until("new ones are refused", is_refused);
    assert_echo(&mut old, b"still here");
    until("connections of the attempts have ended", || counters(&relay).active == 1);
    drop(old);
    until("the last connection has ended", || relay.active() == 0);
    relay.counters();
    assert!(relay.counters().is_empty());
    assert!(matches!(relay.set_targets("web", to(&[])), Err(Error::Unknown { .. })));
}

#[test]
fn listening_again_changes_nothing() {
    let relay = relay();
    let port = relay.listen("web", Protocol::Tcp, Family::V4).unwrap();
    assert_eq!(relay.listen("web", Protocol::Tcp, Family::V4).unwrap(), port);
    assert!(matches!(relay.listen("web", Protocol::Udp, Family::V4), Err(Error::Taken { .. })));
    assert!(matches!(relay.listen_at("other", Protocol::Tcp, Family::V4, port), Err(Error::Io { .. })));
}

#[test]
fn after_a_restart_the_same_port_can_be_had() {
    let before = relay();
    let web = web(&before, to(&[named(b'a')]));
    let mut client = connect(web);
    assert_eq!(name_from(&mut client).unwrap(), 'a');
    drop(before);
    let after = relay();
    assert_eq!(after.listen_at("web", Protocol::Tcp, Family::V4, web.port()).unwrap(), web.port());
    after.set_targets("web", to(&[named(b'b')])).unwrap();
    assert_eq!(who(web), 'b');
}

fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}
