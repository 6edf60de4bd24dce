//! With packet rules: endpoints that say nothing, and clients that were not redirected.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use portolan_model::{Family, Protocol};
use portolan_relay::{Limits, Relay};

use crate::support::{
    PATIENCE, ask, assert_echo, connect, counters, is_reset, name_from, named, named_at, named_udp, relay, to,
    udp_client, web, who,
};

/// Gives the test, and the relay that it starts, a network of its own.
pub(crate) fn new_network() {
    portolan_kernel::enter_new_network_namespace()
        .expect("this test needs root, to have a network namespace of its own");
    run("ip", "link set lo up");
}

fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {arguments}");
}

fn rules(text: &str) {
    run("nft", text);
}

/// Packets to it vanish.
fn silence(address: SocketAddr) {
    rules("add table inet silence");
    rules("add chain inet silence input { type filter hook input priority 0 ; }");
    rules(&format!("add rule inet silence input tcp dport {} drop", address.port()));
}

#[test]
fn an_endpoint_that_says_nothing_is_skipped() {
    new_network();
    let silent = named(b'x');
    silence(silent);
    let relay = relay();
    let web = web(&relay, to(&[silent, named(b'a'), named(b'b')]));
    let seen: String = (0..100).map(|_| who(web)).collect();
    assert!(seen.contains('a') && seen.contains('b') && !seen.contains('x'), "{seen}");
    let seen = counters(&relay);
    assert_eq!((seen.failed, seen.retries), (0, 1), "one client asks it, and the others learn from that");
}

#[test]
fn clients_that_come_at_the_same_time_are_all_served() {
    new_network();
    let silent = named(b'x');
    silence(silent);
    let relay = relay();
    let web = web(&relay, to(&[silent, named(b'a'), named(b'b')]));
    let mut clients: Vec<_> = (0..90).map(|_| connect(web)).collect();
    let seen: String = clients.iter_mut().map(|client| name_from(client).unwrap()).collect();
    assert!(!seen.contains('x'), "{seen}");
    assert_eq!(counters(&relay).failed, 0);
}

#[test]
fn when_every_endpoint_says_nothing_the_client_sees_it() {
    new_network();
    let silent = named(b'x');
    silence(silent);
    let relay = relay();
    assert!(is_reset(web(&relay, to(&[silent]))));
    assert_eq!(counters(&relay).dial_errors, 4, "it was asked four times, with growing patience");
}

#[test]
fn an_endpoint_without_a_route_is_skipped() {
    new_network();
    let relay = relay();
    let web = web(&relay, to(&["192.0.2.1:80".parse().unwrap(), named(b'a')]));
    assert_eq!(who(web), 'a');
}

#[test]
fn only_redirected_clients_are_served() {
    new_network();
    let relay = Relay::start(Limits::default()).unwrap();
    let port = relay.listen("web", Protocol::Tcp, Family::V4).unwrap();
    relay.set_targets("web", to(&[named(b'a')])).unwrap();
    let own = SocketAddr::from(([127, 0, 0, 1], port));
    assert!(is_reset(own), "without connection tracking nobody is redirected");

    rules("add table inet nat");
    rules("add chain inet nat output { type nat hook output priority -100 ; }");
    rules(&format!("add rule inet nat output tcp dport 8080 redirect to :{port}"));
    let mut client = connect(([127, 0, 0, 9], 8080).into());
    assert_eq!(name_from(&mut client).unwrap(), 'a');
    assert_echo(&mut client, b"hello");
    assert!(is_reset(own), "this one has come by itself");
    assert_eq!(counters(&relay).connections, 1);
}

#[test]
fn only_redirected_clients_are_served_by_ipv6() {
    new_network();
    let relay = Relay::start(Limits::default()).unwrap();
    let port = relay.listen("web", Protocol::Tcp, Family::V6).unwrap();
    relay.set_targets("web", to(&[named_at(b'a', "[::1]:0")])).unwrap();
    rules("add table inet nat");
    rules("add chain inet nat output { type nat hook output priority -100 ; }");
    rules(&format!("add rule inet nat output tcp dport 8080 redirect to :{port}"));
    assert_eq!(who("[::1]:8080".parse().unwrap()), 'a');
    assert!(is_reset(format!("[::1]:{port}").parse().unwrap()));
}

#[test]
fn a_redirected_datagram_is_answered_from_where_it_was_sent_to() {
    new_network();
    let relay = Relay::start(Limits { udp_idle: PATIENCE, ..Limits::default() }).unwrap();
    let port = relay.listen("dns", Protocol::Udp, Family::V4).unwrap();
    relay.set_targets("dns", to(&[named_udp(b'a', "127.0.0.1:0")])).unwrap();
    rules("add table inet nat");
    rules("add chain inet nat output { type nat hook output priority -100 ; }");
    rules(&format!("add rule inet nat output udp dport 53 redirect to :{port}"));
    let client = udp_client("127.0.0.1:0", SocketAddr::from(([127, 0, 0, 9], 53)));
    assert_eq!(ask(&client, "?"), "a?");
}

/// Whether an answer arrives to one of several datagrams.
fn is_served(client: &UdpSocket) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    (0..3).any(|_| client.send(b"?").is_ok() && client.recv(&mut [0; 10]).is_ok())
}

fn only_redirected_datagrams(family: Family, local: &str, service: &str) {
    new_network();
    let relay = Relay::start(Limits { udp_idle: PATIENCE, ..Limits::default() }).unwrap();
    let port = relay.listen("dns", Protocol::Udp, family).unwrap();
    let own: SocketAddr = format!("{local}:{port}").parse().unwrap();
    relay.set_targets("dns", to(&[named_udp(b'a', &format!("{local}:0"))])).unwrap();
    let from = format!("{local}:0");
    assert!(!is_served(&udp_client(&from, own)), "without connection tracking nothing is redirected");

    rules("add table inet nat");
    rules("add chain inet nat output { type nat hook output priority -100 ; }");
    rules(&format!("add rule inet nat output udp dport 53 redirect to :{port}"));
    let client = udp_client(&from, service.parse().unwrap());
    assert_eq!(ask(&client, "?"), "a?");
    assert!(!is_served(&udp_client(&from, own)), "this datagram was sent to the relay's own port");
    assert_eq!(ask(&client, "!"), "a!");
    assert_eq!(counters(&relay).connections, 1);
}

#[test]
fn only_redirected_datagrams_are_served() {
    only_redirected_datagrams(Family::V4, "127.0.0.1", "127.0.0.9:53");
}

#[test]
fn only_redirected_datagrams_are_served_by_ipv6() {
    only_redirected_datagrams(Family::V6, "[::1]", "[::1]:53");
}
