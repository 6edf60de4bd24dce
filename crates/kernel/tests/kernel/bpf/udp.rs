//! Datagrams through frontends, with and without connect(2), and the end of connected sockets.

use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;

use portolan_kernel::bpf::{END_UDP, Loader, Object, SocketIterator};

use super::entries::{Frontend, REJECT, UDP, address_key, frontend_key, node_port_key};
use super::lab::{Lab, ask_udp, is_refused, serve_udp, udp_socket};
use crate::common::run;

const FRONTEND: &str = "10.96.0.1:53";
const ENDPOINTS: [&str; 3] = ["127.0.1.1:5353", "127.0.1.2:5353", "127.0.1.3:5353"];

fn with_servers(lab: &Lab) {
    ENDPOINTS.iter().for_each(|it| serve_udp(it));
    lab.cgroup.enter();
}

fn connected(to: &str) -> io::Result<UdpSocket> {
    let socket = udp_socket("0.0.0.0");
    socket.connect(to)?;
    Ok(socket)
}

fn ask_connected(socket: &UdpSocket) -> io::Result<String> {
    socket.send(b"?")?;
    let mut answer = [0; 100];
    let length = socket.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

#[test]
fn an_unconnected_socket_keeps_its_endpoint_and_sees_the_frontend() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, UDP, 1, &ENDPOINTS);
    with_servers(&lab);
    let socket = udp_socket("0.0.0.0");
    let answers: BTreeSet<_> = (0..20).map(|_| ask_udp(&socket, FRONTEND).unwrap()).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers.first().unwrap().1, FRONTEND.parse().unwrap());
    let of_many: BTreeSet<_> = (0..100).map(|_| ask_udp(&udp_socket("0.0.0.0"), FRONTEND).unwrap().0).collect();
    assert_eq!(of_many.len(), 3);
}

#[test]
fn a_new_pool_gives_an_unconnected_socket_another_endpoint() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, UDP, 1, &ENDPOINTS[..1]);
    with_servers(&lab);
    let socket = udp_socket("0.0.0.0");
    assert_eq!(ask_udp(&socket, FRONTEND).unwrap().0, ENDPOINTS[0]);
    lab.serve(FRONTEND, UDP, 2, &ENDPOINTS[1..2]);
    assert_eq!(ask_udp(&socket, FRONTEND).unwrap(), (ENDPOINTS[1].to_owned(), FRONTEND.parse().unwrap()));
}

#[test]
fn a_socket_has_several_exchanges_at_once() {
    let lab = Lab::in_pod();
    let frontends = ["10.96.0.1:53", "10.96.0.2:53", "10.96.0.3:53"];
    for (pool, (frontend, it)) in (1..).zip(frontends.iter().zip(ENDPOINTS)) {
        lab.serve(frontend, UDP, pool, &[it]);
    }
    with_servers(&lab);
    let socket = udp_socket("0.0.0.0");
    for _ in 0..3 {
        for (frontend, it) in frontends.iter().zip(ENDPOINTS) {
            assert_eq!(ask_udp(&socket, frontend).unwrap(), (it.to_owned(), frontend.parse().unwrap()));
        }
    }
}

#[test]
fn sockets_of_ipv6_send_to_frontends_of_both_families() {
    let lab = Lab::in_pod();
    serve_udp("[::1]:5353");
    lab.serve(FRONTEND, UDP, 1, &ENDPOINTS[..1]);
    lab.serve("[fd00:96::1]:53", UDP, 2, &["[::1]:5353"]);
    with_servers(&lab);
    let socket = udp_socket("::");
    for (to, server) in [("[::ffff:10.96.0.1]:53", ENDPOINTS[0]), ("[fd00:96::1]:53", "[::1]:5353")] {
        assert_eq!(ask_udp(&socket, to).unwrap(), (server.to_owned(), to.parse().unwrap()));
    }
    socket.connect("[fd00:96::1]:53").unwrap();
    assert_eq!(ask_connected(&socket).unwrap(), "[::1]:5353");
    assert_eq!(socket.peer_addr().unwrap(), "[fd00:96::1]:53".parse().unwrap());
}

#[test]
fn a_connected_socket_is_translated_where_it_can_be_ended() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, UDP, 1, &ENDPOINTS[..1]);
    with_servers(&lab);
    let socket = connected(FRONTEND).unwrap();
    assert_eq!(ask_connected(&socket).unwrap(), ENDPOINTS[0]);
    assert_eq!(socket.peer_addr().unwrap(), FRONTEND.parse().unwrap());
    let mut answer = [0; 100];
    socket.send(b"?").unwrap();
    assert_eq!(socket.recv_from(&mut answer).unwrap().1, FRONTEND.parse().unwrap());
    // Connected again, to the endpoint itself.
    socket.connect(ENDPOINTS[0]).unwrap();
    assert_eq!(socket.peer_addr().unwrap(), ENDPOINTS[0].parse().unwrap());
}

#[test]
fn a_connected_socket_is_passed_on_where_it_cannot_be_ended() {
    let lab = Lab::in_pod();
    lab.know(0);
    lab.serve(FRONTEND, UDP, 1, &ENDPOINTS[..1]);
    with_servers(&lab);
    assert!(connected(FRONTEND).is_err_and(|it| it.raw_os_error() == Some(libc::ENETUNREACH)));
    assert_eq!(ask_udp(&udp_socket("0.0.0.0"), FRONTEND).unwrap().0, ENDPOINTS[0]);
}

/// Resolvers connect to any port to learn the source address, and send nothing.
#[test]
fn connecting_to_an_unknown_port_of_an_address_is_passed_on() {
    let lab = Lab::in_pod();
    lab.map("frontends").update(&address_key("10.96.0.1"), &Frontend::routed(REJECT).bytes()).unwrap();
    lab.map("frontends").update(&frontend_key("10.96.0.1:54", UDP), &Frontend::routed(REJECT).bytes()).unwrap();
    run("ip", &["route", "add", "10.96.0.0/16", "dev", "lo"]);
    lab.cgroup.enter();
    assert!(connected("10.96.0.1:9").is_ok());
    assert!(is_refused(connected("10.96.0.1:54")));
    assert!(is_refused(udp_socket("0.0.0.0").send_to(b"?", "10.96.0.1:9")));
}

/// How many connected sockets of endpoints that are gone were ended.
fn end_sockets(lab: &Lab) -> usize {
    let object = Object::parse(END_UDP).unwrap();
    let program = Loader::new(&object, |name| lab.maps.get(name), None).unwrap().load("end_udp").unwrap();
    SocketIterator::attach(&program).unwrap().run().unwrap().len()
}

#[test]
fn connected_sockets_of_an_endpoint_that_is_gone_are_ended() {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, UDP, 1, &ENDPOINTS[..1]);
    lab.serve("10.96.0.2:53", UDP, 2, &ENDPOINTS[..2]);
    with_servers(&lab);
    let (gone, other) = (connected(FRONTEND).unwrap(), connected("10.96.0.2:53").unwrap());
    let direct = connected(ENDPOINTS[0]).unwrap();
    let again = connected(FRONTEND).unwrap();
    again.connect(ENDPOINTS[2]).unwrap();
    let unconnected = udp_socket("0.0.0.0");
    assert_eq!(ask_udp(&unconnected, FRONTEND).unwrap().0, ENDPOINTS[0]);
    assert_eq!(end_sockets(&lab), 0);

    lab.serve(FRONTEND, UDP, 3, &ENDPOINTS[2..]);
    assert_eq!(end_sockets(&lab), 1);
    let error = ask_connected(&gone).unwrap_err().raw_os_error();
    assert!(matches!(error, Some(libc::ECONNABORTED | libc::EDESTADDRREQ)), "{error:?}");
    assert!(ENDPOINTS[..2].contains(&&*ask_connected(&other).unwrap()));
    assert_eq!(ask_connected(&direct).unwrap(), ENDPOINTS[0]);
    assert_eq!(ask_connected(&again).unwrap(), ENDPOINTS[2]);
    assert_eq!(ask_udp(&unconnected, FRONTEND).unwrap().0, ENDPOINTS[2]);
    // The same socket can be connected again. One call has reported the error of the end, the other one is still to do so.
    let _ = gone.take_error();
    gone.connect(FRONTEND).unwrap();
    assert_eq!(ask_connected(&gone).unwrap(), ENDPOINTS[2]);
}

/// A Service that was deleted, or whose frontend refuses now.
#[test]
fn connected_sockets_without_a_frontend_are_ended() {
    let lab = Lab::on_node();
    lab.own("127.0.0.1", 1);
    lab.serve(FRONTEND, UDP, 1, &ENDPOINTS[..1]);
    lab.fill(2, &ENDPOINTS[..1]);
    let node_port = Frontend::of_pool(2, 1);
    lab.map("frontends").update(&node_port_key(30053, UDP), &node_port.bytes()).unwrap();
    with_servers(&lab);
    let sockets = [connected(FRONTEND).unwrap(), connected("127.0.0.1:30053").unwrap()];
    assert!(sockets.iter().all(|socket| ask_connected(socket).unwrap() == ENDPOINTS[0]));
    assert_eq!(end_sockets(&lab), 0);
    assert!(lab.map("frontends").delete(&frontend_key(FRONTEND, UDP)).unwrap());
    assert_eq!(end_sockets(&lab), 1);
    lab.map("frontends").update(&node_port_key(30053, UDP), &Frontend::routed(REJECT).bytes()).unwrap();
    assert_eq!(end_sockets(&lab), 1);
}
