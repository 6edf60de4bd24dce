//! Timeouts of connections on which nothing moves.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use portolan_relay::{Limits, Relay};
use socket2::SockRef;

use crate::support::{accept, assert_echo, connect, limits, name_from, named, relay, server, to, until, web};

const SHORT: Duration = Duration::from_millis(300);

fn is_reset(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn an_idle_connection_is_reset_and_one_with_traffic_is_not() {
    let relay = Relay::start(Limits { tcp_idle: SHORT, ..limits() }).unwrap();
    let web = web(&relay, to(&[named(b'a')]));
    let [mut idle, mut used] = [(); 2].map(|()| connect(web));
    assert_eq!((name_from(&mut idle).unwrap(), name_from(&mut used).unwrap()), ('a', 'a'));
    let start = Instant::now();
    until("the idle connection has ended", || {
        assert_echo(&mut used, b"still here");
        relay.active() == 1
    });
    assert!(start.elapsed() >= SHORT / 2);
    assert!(is_reset(&mut idle));
    assert_echo(&mut used, b"still here");
}

#[test]
fn a_half_closed_connection_ends_earlier_than_an_idle_one() {
    let relay = Relay::start(Limits { tcp_half_closed: SHORT, ..limits() }).unwrap();
    let (listener, address) = server();
    let web = web(&relay, to(&[address]));
    let (mut half, mut whole) = (connect(web), connect(web));
    let (mut of_half, mut of_whole) = (accept(&listener), accept(&listener));
    half.shutdown(Shutdown::Write).unwrap();
    // The two may have arrived in either order.
    for server in [&mut of_half, &mut of_whole] {
        server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    }
    let closed = [of_half.read(&mut [0]), of_whole.read(&mut [0])].iter().filter(|it| matches!(it, Ok(0))).count();
    assert_eq!(closed, 1, "the end of file is forwarded");
    until("the half-closed connection has ended", || relay.active() == 1);
    assert!(is_reset(&mut half));
    for server in [&mut of_half, &mut of_whole] {
        let _ = server.write_all(b"!");
    }
    assert_eq!(name_from(&mut whole).unwrap(), '!');
}

#[test]
fn keepalive_finds_vanished_peers_in_minutes() {
    let relay = relay();
    let (listener, address) = server();
    let _client = connect(web(&relay, to(&[address])));
    let accepted = accept(&listener);
    // Its own socket has the defaults of the kernel, and shows what the timer of its peer is not.
    assert_eq!(SockRef::from(&accepted).tcp_keepalive_time().unwrap(), Duration::from_secs(7200));
    let timers = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", address.port());
    // Columns: number, local, remote, state (01: established), queues, timer (02: keepalive) and its end in 10 ms.
    let ends: Vec<u64> = timers
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns[2].ends_with(&port) && columns[3] == "01")
        .filter_map(|columns| u64::from_str_radix(columns[5].strip_prefix("02:")?, 16).ok())
        .collect();
    assert!(ends.len() == 1 && ends[0] <= 300 * 100, "{ends:?}");
}
