//! Open connections that end with a reset of both sides: those of removed endpoints.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use portolan_dataplane::modes;
use portolan_kernel::conntrack::{Conntrack, Flow, TcpFlow};
use portolan_model::Family;
use portolan_testkit::Protocol;

use crate::both_sides::{A_WHILE, Pair, RESET, SOON, annotated, check_both_sides, outcome, started};
use crate::node::{Node, WEB, WEB_IP, service, web};
use crate::poll::until;
use crate::switching::{switch, write_mode};

#[test]
fn connections_of_a_removed_endpoint_are_reset_on_both_sides_in_every_mode() {
    let all = modes::ALL.iter().copied().filter(|mode| mode.missing().is_none());
    all.for_each(check_both_sides);
}

#[test]
fn connections_of_a_removed_endpoint_are_reset_in_ipv6() {
    let with = |address: &str| {
        let manifest = web("fd00:10:96::80", &[address]).replace("addressType: IPv4", "addressType: IPv6");
        annotated(RESET, &manifest).replace("  clusterIP:", "  ipFamilies: [IPv6]\n  clusterIP:")
    };
    let node = started(modes::default(), &with("fd00:10:244:1::2"));
    let pair = Pair::open(&node, "pod-a3", "[fd00:10:96::80]:80", "pod-a1", "[fd00:10:244:1::2]:8080");
    node.write("web.yaml", &with("fd00:10:244:2::2"));
    pair.assert_reset("IPv6");
}

#[test]
fn connections_are_kept_without_the_annotation() {
    let node = started(modes::default(), &web(WEB_IP, &["10.244.1.2"]));
    let mut pair = Pair::open(&node, "pod-a3", WEB, "pod-a1", "10.244.1.2:8080");
    node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
    node.settle_on(&["10.244.2.2"]);
    pair.assert_open("the endpoint is gone");
    assert!(!node.nft("list tables").contains("portolan-resets"));
}

/// The time runs from the removal, whatever changes meanwhile. An endpoint that returns in time keeps its connections.
#[test]
fn an_endpoint_that_returns_in_time_keeps_its_connections() {
    let after = |time: &str, endpoints: &[&str]| {
        annotated(&RESET.replace(": reset", &format!(": reset-after={time}")), &web(WEB_IP, endpoints))
    };
    let both = ["10.244.1.2", "10.244.1.3"];
    let node = started(modes::default(), &after("3s", &both[..1]));
    let mut pair = Pair::open(&node, "pod-a3", WEB, "pod-a1", "10.244.1.2:8080");
    node.write("web.yaml", &after("3s", &both[1..]));
    node.settle_on(&both[1..]);
    node.write("web.yaml", &after("3s", &both));
    node.settle_on(&both);
    pair.assert_open("the endpoint is back");
    pair.assert_open("the time has passed");
    node.write("web.yaml", &after("1s", &both[1..]));
    node.settle_on(&both[1..]);
    node.write("other.yaml", &service("other", "10.96.0.81", "type: ClusterIP", &["10.244.2.2"]));
    pair.assert_reset("the endpoint stays away");
}

#[test]
fn the_connections_of_a_removed_service_are_reset_and_the_table_goes() {
    let mut node = started(modes::default(), &annotated(RESET, &web(WEB_IP, &["10.244.1.2"])));
    let pair = Pair::open(&node, "pod-a3", WEB, "pod-a1", "10.244.1.2:8080");
    node.remove("web.yaml");
    pair.assert_reset("the Service is gone");
    assert!(node.nft("list tables").contains("portolan-resets"));
    assert!(
        node.get("127.0.0.1:10249", "/metrics")
            .contains("portolan_connections_reset_total{reason=\"endpoint_removed\"} 1\n")
    );
    assert!(node.stop().success());
    assert!(!node.nft("list tables").contains("portolan-resets"));
}

/// Connections are looked for in one walk, and end in batches.
#[test]
fn connections_are_reset_at_a_bounded_rate() {
    const COUNT: usize = 2_500;
    let with = |address: &str| annotated(RESET, &web(WEB_IP, &[address]));
    let node = started(modes::default(), &with("10.244.1.2"));
    let flow = |number: u32| {
        let client = SocketAddr::new(Ipv4Addr::from(0x0b00_0000 + number).into(), 1000);
        let (frontend, endpoint) = (WEB.parse().unwrap(), "10.244.1.2:8080".parse().unwrap());
        Flow {
            protocol: 6,
            original_source: client,
            original_destination: frontend,
            reply_source: endpoint,
            reply_destination: client,
        }
    };
    let tracked = || {
        let count = |count: &mut usize, flow: &TcpFlow| *count += usize::from(flow.flow.original_source.port() == 1000);
        node.lab.host("node-a").run(|| Conntrack::open().unwrap().tcp_flows(Family::V4, count).unwrap())
    };
    node.lab.host("node-a").run(|| {
        let mut conntrack = Conntrack::open().unwrap();
        (0..COUNT as u32).for_each(|number| conntrack.insert(&flow(number), Duration::from_secs(600)).unwrap());
    });
    assert_eq!(tracked(), COUNT);
    let begin = Instant::now();
    node.write("web.yaml", &with("10.244.2.2"));
    until("all have ended", || tracked() == 0);
    assert!(begin.elapsed() > Duration::from_secs(2), "{COUNT} connections in {:?}", begin.elapsed());
}

/// A client of the endpoint that vanishes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Client {
    /// Has sent a request and waits.
    Waits,
    Sends,
    Idles,
}

/// Uses the connection until it fails or the time is over.
fn fails_within(client: Client, mut stream: TcpStream, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    if client == Client::Waits {
        _ = stream.write_all(b"request");
    }
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    loop {
        let is_sent = client != Client::Sends || stream.write_all(b"more").is_ok();
        match stream.read(&mut [0; 64]) {
            _ if !is_sent => return true,
            Ok(0) => return true,
            Err(error) if error.kind() != ErrorKind::WouldBlock => return true,
            _ if Instant::now() > deadline => return false,
            _ => {}
        }
    }
}

/// The time from the removal of the endpoint until the client is served again, if that is soon.
fn served_again(annotation: &str, client: Client) -> Option<Duration> {
    let with = |endpoints: &[&str]| annotated(annotation, &web(WEB_IP, endpoints));
    let node = started(modes::default(), &with(&["10.244.1.2"]));
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    let host = node.lab.host("pod-a3");
    let mut stream = host.run(|| TcpStream::connect(WEB)).unwrap();
    stream.read_exact(&mut [0; 32]).unwrap();
    node.lab.host("node-a").command(&["ip", "link", "set", "veth-a1", "down"]).unwrap();
    let begin = Instant::now();
    let user = thread::spawn(move || fails_within(client, stream, Duration::from_secs(4)));
    node.write("web.yaml", &with(&["10.244.2.2"]));
    if !user.join().unwrap() {
        return None;
    }
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-b1");
    Some(begin.elapsed())
}

#[test]
fn clients_of_a_pod_that_is_cut_off_are_served_again_at_once() {
    for client in [Client::Waits, Client::Sends, Client::Idles] {
        let (kept, reset) = (served_again("a: b", client), served_again(RESET, client));
        println!("a client that {client:?}: keep {kept:?}, reset {reset:?}");
        assert_eq!(kept, None, "as with kube-proxy, the client does not notice");
        assert!(reset.is_some(), "{client:?}");
    }
}

/// Without CAP_NET_RAW nothing is provoked.
#[test]
fn without_the_capability_a_connection_is_reset_with_its_next_packet() {
    let with = |address: &str| annotated(RESET, &web(WEB_IP, &[address]));
    let mut node = Node::new();
    node.write("web.yaml", &with("10.244.1.2"));
    node.start_without("-net_raw", &[]);
    let mut pair = Pair::open(&node, "pod-a3", WEB, "pod-a1", "10.244.1.2:8080");
    node.write("web.yaml", &with("10.244.2.2"));
    until("the rules know the connection", || node.nft("list tables").contains("portolan-resets"));
    assert_eq!(outcome(&pair.client, A_WHILE), Err(ErrorKind::WouldBlock));
    pair.client.write_all(b"?").unwrap();
    assert_eq!(outcome(&pair.client, SOON), Err(ErrorKind::ConnectionReset));
    assert_eq!(node.log().matches("needs the capability CAP_NET_RAW").count(), 2, "once for each family");
}

/// The relay of a mode that was left carries its connections until they end.
#[test]
fn connections_of_an_earlier_mode_are_reset() {
    let with = |address: &str| annotated(RESET, &web(WEB_IP, &[address]));
    let relayed = modes::ALL.iter().copied().find(|mode| mode.limits().relayed).expect("there is such a mode");
    let mut node = Node::new();
    node.write("web.yaml", &with("10.244.1.2"));
    write_mode(&node, relayed, "");
    let file = node.path("config.conf").display().to_string();
    node.start_with(&["--config", &file]);
    let mut pair = Pair::open(&node, "pod-a3", WEB, "pod-a1", "10.244.1.2:8080");
    switch(&node, modes::default(), "");
    pair.assert_open("a change of the mode keeps connections");
    node.write("web.yaml", &with("10.244.2.2"));
    pair.assert_reset("the endpoint is gone");
}
