//! A shortage of this machine says nothing about an endpoint.

use std::net::SocketAddr;

use portolan_model::{Family, Protocol};
use portolan_relay::{Limits, Relay};

use crate::rules::new_network;
use crate::support::{
    PATIENCE, ask, connect_at, counters, limits, name_from, named, named_udp, to, udp_client, until, web,
};

/// The ports that the kernel chooses from, in the network namespace of the test.
fn port_range(range: &str) {
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range).unwrap();
}

#[test]
fn without_local_ports_no_endpoint_of_datagrams_is_blamed() {
    new_network();
    let relay = Relay::start(Limits { udp_idle: PATIENCE, ..limits() }).unwrap();
    let port = relay.listen("dns", Protocol::Udp, Family::V4).unwrap();
    let endpoints = [named_udp(b'a', "127.0.0.1:0"), named_udp(b'b', "127.0.0.1:0")];
    relay.set_targets("dns", to(&endpoints)).unwrap();
    let dns = ([127, 0, 0, 1], port).into();
    let client = |number: u16| udp_client(&format!("127.0.0.1:{}", 1000 + number), dns);

    port_range("50000 50003");
    let served: Vec<_> = (0..4).map(client).collect();
    assert!(served.iter().all(|client| ask(client, "?").ends_with('?')));
    for number in 4..8 {
        client(number).send(b"?").unwrap();
    }
    until("datagrams are dropped", || counters(&relay).refused_at_limit == 4);
    port_range("50004 60000");
    let seen: String = (8..12).map(|number| ask(&client(number), "")).collect();
    assert_eq!((seen.matches('a').count(), seen.matches('b').count()), (2, 2), "{seen}");
    assert_eq!((counters(&relay).dial_errors, counters(&relay).failed), (0, 0));
}

#[test]
fn without_local_ports_no_endpoint_of_connections_is_blamed() {
    new_network();
    let relay = Relay::start(limits()).unwrap();
    let web = web(&relay, to(&[named(b'a'), named(b'b')]));
    let client = |number: u16| connect_at(SocketAddr::from(([127, 0, 0, 1], 1000 + number)), web);
    let name = |number| client(number).and_then(|mut client| name_from(&mut client));

    port_range("50000 50001");
    // Two connections to each endpoint, and no port for another one.
    let mut clients: Vec<_> = (0..4).map(|number| client(number).unwrap()).collect();
    let seen: String = clients.iter_mut().map(|client| name_from(client).unwrap()).collect();
    assert_eq!((seen.matches('a').count(), seen.matches('b').count()), (2, 2), "{seen}");
    assert!(name(4).is_err());
    port_range("50002 60000");
    let seen: String = (5..9).map(|number| name(number).unwrap()).collect();
    assert_eq!((seen.matches('a').count(), seen.matches('b').count()), (2, 2), "{seen}");
    assert_eq!((counters(&relay).dial_errors, counters(&relay).failed), (0, 1));
}
