//! Connections through frontends.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::FromRawFd;

use super::entries::{
    CLUSTER, Frontend, LOCAL, PASS, REJECT, TCP, address_key, client_key, frontend_key, member_key, node_port_key,
};
use super::lab::{Lab, ask_tcp, is_refused, serve_tcp};

const FRONTEND: &str = "10.96.0.1:80";
const ENDPOINTS: [&str; 3] = ["127.0.1.1:8080", "127.0.1.2:8080", "127.0.1.3:8080"];

fn with_servers(lab: &Lab) {
    ENDPOINTS.iter().for_each(|it| serve_tcp(it));
    lab.cgroup.enter();
}

/// The servers that answer so many connections.
fn answers(to: &str, count: usize) -> BTreeSet<String> {
    (0..count).map(|_| ask_tcp(to).unwrap().0).collect()
}

#[test]
fn every_endpoint_is_reached_and_the_peer_is_the_frontend() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, TCP, 1, &ENDPOINTS);
    with_servers(&lab);
    // The chance to miss one in 100 connections is 10 to the power of -17.
    assert_eq!(answers(FRONTEND, 100), ENDPOINTS.map(str::to_owned).into());
    assert_eq!(ask_tcp(FRONTEND).unwrap().1, FRONTEND.parse().unwrap());
    assert_eq!(ask_tcp(ENDPOINTS[0]).unwrap().1, ENDPOINTS[0].parse().unwrap());
    lab.cgroup.leave();
    assert!(ask_tcp(FRONTEND).is_err(), "a process of another cgroup is not translated");
}

/// Four slots have room in the entry: two of the cluster pool, and two of the local pool.
#[test]
fn the_slots_of_a_frontend_are_its_endpoints() {
    let lab = Lab::in_pod();
    with_servers(&lab);
    let slots = [ENDPOINTS[0], ENDPOINTS[1], ENDPOINTS[2], ENDPOINTS[0]];
    let write = |routes| {
        let frontend = Frontend { pools: [(1, 2), (2, 2)], service: 7, routes, ..Frontend::default() };
        lab.map("frontends").update(&frontend_key(FRONTEND, TCP), &frontend.with_slots(&slots)).unwrap();
    };
    write([CLUSTER, PASS]);
    assert_eq!(answers(FRONTEND, 60), [ENDPOINTS[0], ENDPOINTS[1]].map(str::to_owned).into());
    write([LOCAL, PASS]);
    assert_eq!(answers(FRONTEND, 60), [ENDPOINTS[0], ENDPOINTS[2]].map(str::to_owned).into());
    assert_eq!(ask_tcp(FRONTEND).unwrap().1, FRONTEND.parse().unwrap());
}

#[test]
fn a_socket_of_ipv6_reaches_frontends_of_both_families() {
    let lab = Lab::in_pod();
    serve_tcp("[::1]:8080");
    lab.serve(FRONTEND, TCP, 1, &ENDPOINTS[..1]);
    lab.serve("[fd00:96::1]:80", TCP, 2, &["[::1]:8080"]);
    with_servers(&lab);
    let mapped = ask_tcp("[::ffff:10.96.0.1]:80").unwrap();
    assert_eq!(mapped, (ENDPOINTS[0].to_owned(), "[::ffff:10.96.0.1]:80".parse().unwrap()));
    let of_ipv6 = ask_tcp("[fd00:96::1]:80").unwrap();
    assert_eq!(of_ipv6, ("[::1]:8080".to_owned(), "[fd00:96::1]:80".parse().unwrap()));
}

#[test]
fn routes_decide_for_pods_and_the_node() {
    let lab = Lab::in_pod();
    let frontends = lab.map("frontends");
    lab.fill(1, &ENDPOINTS[..1]);
    lab.fill(2, &ENDPOINTS[1..2]);
    with_servers(&lab);
    let pools = [(1, 1), (2, 1)];
    let write = |routes| {
        let entry = Frontend { pools, routes, service: 7, affinity: 0 };
        frontends.update(&frontend_key(FRONTEND, TCP), &entry.bytes()).unwrap();
    };
    write([CLUSTER, REJECT]);
    assert_eq!(ask_tcp(FRONTEND).unwrap().0, ENDPOINTS[0]);
    write([LOCAL, REJECT]);
    assert_eq!(ask_tcp(FRONTEND).unwrap().0, ENDPOINTS[1]);
    write([REJECT, CLUSTER]);
    assert!(is_refused(ask_tcp(FRONTEND)));
    // Nothing stands behind the hook here: the namespace has no route.
    write([PASS, CLUSTER]);
    assert!(ask_tcp(FRONTEND).is_err_and(|it| it.raw_os_error() == Some(libc::ENETUNREACH)));
}

#[test]
fn an_unknown_port_of_an_address_is_refused() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, TCP, 1, &ENDPOINTS[..1]);
    lab.map("frontends").update(&address_key("10.96.0.1"), &Frontend::routed(REJECT).bytes()).unwrap();
    with_servers(&lab);
    assert!(is_refused(ask_tcp("10.96.0.1:81")));
    assert_eq!(ask_tcp(FRONTEND).unwrap().0, ENDPOINTS[0]);
}

#[test]
fn node_ports_are_on_the_nodes_addresses_and_its_loopback_only() {
    let lab = Lab::in_pod();
    lab.fill(1, &ENDPOINTS[..1]);
    lab.map("frontends").update(&node_port_key(30080, TCP), &Frontend::of_pool(1, 1).bytes()).unwrap();
    lab.own("192.0.2.1", 1);
    lab.own("127.0.0.1", 2);
    with_servers(&lab);
    assert_eq!(ask_tcp("192.0.2.1:30080").unwrap().0, ENDPOINTS[0]);
    assert!(ask_tcp("192.0.2.2:30080").is_err());
    // The loopback address of a pod, where nothing listens.
    assert!(is_refused(ask_tcp("127.0.0.1:30080")));

    let node = Lab::on_node();
    node.fill(1, &ENDPOINTS[..1]);
    node.map("frontends").update(&node_port_key(30080, TCP), &Frontend::of_pool(1, 1).bytes()).unwrap();
    node.own("127.0.0.1", 2);
    with_servers(&node);
    assert_eq!(ask_tcp("127.0.0.1:30080").unwrap(), (ENDPOINTS[0].to_owned(), "127.0.0.1:30080".parse().unwrap()));
}

#[test]
fn a_client_keeps_its_endpoint_while_the_pool_has_it() {
    let lab = Lab::in_pod();
    let entry = lab.serve(FRONTEND, TCP, 1, &ENDPOINTS);
    let write = |pool, count, affinity| {
        let entry = Frontend { pools: [(pool, count), (0, 0)], affinity, ..entry };
        lab.map("frontends").update(&frontend_key(FRONTEND, TCP), &entry.bytes()).unwrap();
    };
    ENDPOINTS.iter().for_each(|it| lab.map("members").update(&member_key(1, it), &1u32.to_le_bytes()).unwrap());
    with_servers(&lab);
    write(1, 3, 3600);
    let first = answers(FRONTEND, 30);
    assert_eq!(first.len(), 1, "{first:?}");
    let kept = lab.map("clients").lookup(&client_key(lab.cookie, 7)).unwrap().expect("the client is stored");
    assert_eq!(kept.len(), 32);

    // A pool without it.
    let others: Vec<&str> = ENDPOINTS.into_iter().filter(|it| !first.contains(*it)).collect();
    lab.fill(2, &others);
    others.iter().for_each(|it| lab.map("members").update(&member_key(2, it), &1u32.to_le_bytes()).unwrap());
    write(2, 2, 3600);
    let second = answers(FRONTEND, 30);
    assert_eq!(second.len(), 1, "{second:?}");
    assert!(first.is_disjoint(&second));
}

#[test]
fn a_client_whose_time_is_over_chooses_again() {
    let lab = Lab::in_pod();
    let entry = Frontend { affinity: 10, ..lab.serve(FRONTEND, TCP, 1, &ENDPOINTS) };
    lab.map("frontends").update(&frontend_key(FRONTEND, TCP), &entry.bytes()).unwrap();
    ENDPOINTS.iter().for_each(|it| lab.map("members").update(&member_key(1, it), &1u32.to_le_bytes()).unwrap());
    with_servers(&lab);
    let mut seen = BTreeSet::new();
    for _ in 0..60 {
        seen.extend(answers(FRONTEND, 1));
        let key = client_key(lab.cookie, 7);
        let mut client = lab.map("clients").lookup(&key).unwrap().unwrap();
        client[24..].copy_from_slice(&0u64.to_le_bytes());
        lab.map("clients").update(&key, &client).unwrap();
    }
    assert_eq!(seen.len(), 3, "the client is from the time that the machine was started");
}

/// A socket of MPTCP, whose protocol the hook looks up as TCP; `None` on a kernel without it.
fn connect_mptcp(to: SocketAddrV4) -> Option<TcpStream> {
    const MPTCP: libc::c_int = 262;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: takes no pointers.
    let descriptor = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, MPTCP) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor was just opened.
    let stream = unsafe { TcpStream::from_raw_fd(descriptor) };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address lives until the call returns, and has this length.
    let outcome = unsafe { libc::connect(descriptor, (&raw const address).cast(), length) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    Some(stream)
}

#[test]
fn a_socket_of_mptcp_is_one_of_tcp() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, TCP, 1, &ENDPOINTS[..1]);
    with_servers(&lab);
    let Some(mut stream) = connect_mptcp(FRONTEND.parse().unwrap()) else {
        eprintln!("skipped: the kernel has no MPTCP");
        return;
    };
    stream.write_all(b"?").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, ENDPOINTS[0]);
}
