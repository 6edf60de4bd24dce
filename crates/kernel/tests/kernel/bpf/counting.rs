//! Connections, bytes and refusals.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::entries::{Frontend, REJECT, TCP, UDP, frontend_key, traffic_key};
use super::lab::{Lab, ask_tcp, ask_udp, is_refused, serve_tcp, serve_udp, udp_socket};

const FRONTEND: &str = "10.96.0.1:80";
const ENDPOINT: &str = "127.0.1.1:8080";
const SERVICE: u64 = 7;

/// Connections, bytes to the endpoint, bytes from it.
fn traffic(lab: &Lab) -> [u64; 3] {
    traffic_in(lab, "first_traffic")
}

fn traffic_in(lab: &Lab, map: &str) -> [u64; 3] {
    let value = lab.map(map).lookup(&traffic_key(SERVICE, ENDPOINT)).unwrap().unwrap_or_default();
    sums(&value)
}

fn sums<const COUNT: usize>(value: &[u8]) -> [u64; COUNT] {
    let (numbers, _) = value.as_chunks::<8>();
    let mut sums = [0; COUNT];
    numbers.iter().enumerate().for_each(|(index, it)| sums[index % COUNT] += u64::from_le_bytes(*it));
    sums
}

fn until(what: &str, is_met: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_met() {
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

#[test]
fn connections_are_counted_when_they_begin() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, TCP, 1, &[ENDPOINT]);
    lab.serve(FRONTEND, UDP, 1, &[ENDPOINT]);
    serve_tcp(ENDPOINT);
    serve_udp(ENDPOINT);
    lab.cgroup.enter();
    (0..5).for_each(|_| drop(ask_tcp(FRONTEND).unwrap()));
    assert_eq!(traffic(&lab)[0], 5);
    let socket = udp_socket("0.0.0.0");
    (0..5).for_each(|_| drop(ask_udp(&socket, FRONTEND).unwrap()));
    assert_eq!(traffic(&lab)[0], 6, "a socket of UDP is one until it has another endpoint");
    ask_tcp(ENDPOINT).unwrap();
    assert_eq!(traffic(&lab)[0], 6, "without the Service");
}

#[test]
fn bytes_are_counted_when_a_connection_is_closed() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, TCP, 1, &[ENDPOINT]);
    let listener = TcpListener::bind(ENDPOINT).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read_exact(&mut vec![0; 100_000]);
            let _ = stream.write_all(&vec![0; 30_000]);
        }
    });
    lab.cgroup.enter();
    let exchange = |to: &str| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(&vec![0; 100_000]).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    };
    exchange(ENDPOINT);
    exchange(FRONTEND);
    exchange(FRONTEND);
    // The numbers of the kernel contain SYN and FIN.
    let is_near = |counted: u64, sent: u64| (sent..=sent + 4).contains(&counted);
    until("the bytes of two connections", || {
        let [connections, out, back] = traffic(&lab);
        connections == 2 && is_near(out, 200_000) && is_near(back, 60_000)
    });
}

/// Pairs beyond the first ones have their counters in the larger map.
#[test]
fn connections_are_counted_where_the_first_map_is_full() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, TCP, 1, &[ENDPOINT]);
    serve_tcp(ENDPOINT);
    let first = lab.map("first_traffic");
    let others = (1..=u64::from(first.info().max_entries)).map(|it| traffic_key(1 << 32 | it, ENDPOINT));
    let others: Vec<Vec<u8>> = others.collect();
    first.update_batch(others.iter().map(|key| (key.as_slice(), &[0; 24][..]))).unwrap();
    lab.cgroup.enter();
    (0..3).for_each(|_| drop(ask_tcp(FRONTEND).unwrap()));
    assert_eq!((traffic(&lab)[0], traffic_in(&lab, "traffic")[0]), (0, 3));
    until("the bytes of the connections", || traffic_in(&lab, "traffic")[2] > 0);
}

#[test]
fn refusals_are_counted_by_service() {
    let lab = Lab::in_pod();
    lab.map("frontends").update(&frontend_key(FRONTEND, TCP), &Frontend::routed(REJECT).bytes()).unwrap();
    lab.cgroup.enter();
    (0..3).for_each(|_| assert!(is_refused(ask_tcp(FRONTEND))));
    let value = lab.map("refusals").lookup(&SERVICE.to_le_bytes()).unwrap().unwrap();
    assert_eq!(sums(&value), [3]);
}
