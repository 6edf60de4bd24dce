//! The connection limit, and the shares of Services and clients in it.

use std::net::{SocketAddr, TcpStream};

use portolan_relay::{Counters, Limits, Relay, Targets};

use crate::support::{
    assert_echo, connect, connect_from, counters, is_reset, limits, name_from, named, service, to, until, web,
};

const ELSEWHERE: [u8; 4] = [127, 0, 9, 9];

fn for_at_most(connections: usize) -> Relay {
    Relay::start(Limits { connections, ..limits() }).unwrap()
}

fn served(mut client: TcpStream) -> TcpStream {
    assert_eq!(name_from(&mut client).unwrap(), 'a');
    client
}

fn counters_of(relay: &Relay, name: &str) -> Counters {
    relay.counters().into_iter().find(|(it, _)| it == name).unwrap().1
}

/// So many clients, each with its own address.
fn clients(count: u8, to: SocketAddr) -> Vec<TcpStream> {
    (1..=count).map(|number| connect_from([127, 0, 1, number], to)).collect()
}

#[test]
fn at_the_limit_clients_wait_until_others_end() {
    let relay = for_at_most(1);
    let web = web(&relay, to(&[named(b'a')]));
    let mut first = served(connect(web));
    let (second, third) = (connect(web), connect(web));
    until("a client waits", || counters(&relay).refused_at_limit > 0);
    assert_echo(&mut first, b"not disturbed");
    assert_eq!((relay.active(), counters(&relay).refused_at_limit), (1, 1), "waiting takes no work");
    drop(first);
    // The kernel's queue has an order.
    drop(served(second));
    drop(served(third));
    until("all have ended", || relay.active() == 0);
    assert_eq!(counters(&relay).connections, 3);
}

#[test]
fn a_client_in_the_queue_at_a_close_is_served() {
    let relay = for_at_most(1);
    let web = web(&relay, to(&[named(b'a')]));
    let first = served(connect(web));
    let waiting = [connect(web), connect(web)];
    until("a client waits", || counters(&relay).refused_at_limit > 0);
    relay.close("web").unwrap();
    let waiting = waiting.map(served);
    drop((first, waiting));
    until("all have ended", || relay.active() == 0);
}

#[test]
fn a_service_at_its_share_does_not_block_another() {
    let relay = for_at_most(16);
    let server = named(b'a');
    let (a, b) = (service(&relay, "a", to(&[server])), service(&relay, "b", to(&[server])));
    let hoarded = clients(20, a);
    until("clients of a wait", || counters_of(&relay, "a").refused_at_limit > 0);
    assert_eq!(counters_of(&relay, "a").active, 12, "three quarters");
    drop(served(connect_from(ELSEWHERE, b)));
    assert_eq!(counters_of(&relay, "b").refused_at_limit, 0);
    drop(hoarded);
    until("all have been served", || counters_of(&relay, "a").connections == 20);
}

#[test]
fn listeners_of_one_service_have_one_share() {
    let relay = for_at_most(16);
    let targets = || Targets { share: Some("web".into()), ..to(&[named(b'a')]) };
    let (a, b) = (service(&relay, "a", targets()), service(&relay, "b", targets()));
    let (first, second) = (clients(10, a), clients(10, b));
    until("clients wait", || counters_of(&relay, "a").refused_at_limit + counters_of(&relay, "b").refused_at_limit > 0);
    assert_eq!(relay.active(), 12);
    drop((first, second));
    until("all have been served", || counters_of(&relay, "a").connections + counters_of(&relay, "b").connections == 20);
}

#[test]
fn a_freed_connection_goes_to_a_client_that_waits() {
    let relay = for_at_most(1);
    let server = named(b'a');
    let (a, b) = (service(&relay, "a", to(&[server])), service(&relay, "b", to(&[server])));
    let first = served(connect(a));
    let second = connect(b);
    until("a client of b waits", || counters_of(&relay, "b").refused_at_limit > 0);
    drop(first);
    drop(served(second));
}

#[test]
fn a_client_beyond_its_share_is_reset_and_others_are_served() {
    let relay = for_at_most(16);
    let server = named(b'a');
    let services = ["a", "b", "c", "d"].map(|name| service(&relay, name, to(&[server])));
    let mut hoarded: Vec<TcpStream> = (0..12).map(|number| served(connect(services[number % 4]))).collect();
    assert!(services.into_iter().all(is_reset));
    drop(served(connect_from(ELSEWHERE, services[0])));
    hoarded.pop();
    until("there is room for the client again", || !is_reset(services[0]));
}
