//! Too many connections.

use std::net::TcpStream;

use portolan_relay::{Limits, Relay};

use crate::support::{assert_echo, connect, counters, limits, name_from, named, to, until, web};

fn for_one() -> Relay {
    Relay::start(Limits { connections: 1, ..limits() }).unwrap()
}

fn served(mut client: TcpStream) -> TcpStream {
    assert_eq!(name_from(&mut client).unwrap(), 'a');
    client
}

#[test]
fn at_the_limit_clients_wait_until_others_end() {
    let relay = for_one();
    let web = web(&relay, to(&[named(b'a')]));
    let mut first = served(connect(web));
    let (second, third) = (connect(web), connect(web));
    until("somebody waits", || counters(&relay).refused_at_limit > 0);
    assert_echo(&mut first, b"not disturbed");
    assert_eq!((relay.active(), counters(&relay).refused_at_limit), (1, 1), "waiting is no work");
    drop(first);
    // The kernel's queue has an order.
    drop(served(second));
    drop(served(third));
    until("all have ended", || relay.active() == 0);
    assert_eq!(counters(&relay).connections, 3);
}

#[test]
fn who_is_in_the_queue_at_a_close_is_served() {
    let relay = for_one();
    let web = web(&relay, to(&[named(b'a')]));
    let first = served(connect(web));
    let waiting = [connect(web), connect(web)];
    until("somebody waits", || counters(&relay).refused_at_limit > 0);
    relay.close("web").unwrap();
    let waiting = waiting.map(served);
    drop((first, waiting));
    until("all have ended", || relay.active() == 0);
}
