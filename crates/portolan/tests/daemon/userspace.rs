//! userspace mode on a running node.

use std::collections::BTreeSet;
use std::process::ExitStatus;

use portolan_testkit::{Protocol, topology};
use rustix::process::{Pid, Signal, kill_process};

use crate::iptables::{command, save};
use crate::node::{Node, WEB, WEB_IP, service, udp_service, web};
use crate::poll::until;
use crate::traffic::{Traffic, node_with_service};

const FLAGS: [&str; 2] = ["--proxy-mode=userspace", "--sync-period=300ms"];
/// With node ports at the address that the tests use.
const TRAFFIC_FLAGS: [&str; 3] =
    ["--proxy-mode=userspace", "--sync-period=300ms", "--nodeport-addresses=192.168.50.0/24"];

fn running(endpoints: &[&str]) -> Node {
    Node::serving_web(endpoints, &FLAGS)
}

/// The rules that lead to listeners.
fn redirects(node: &Node) -> Vec<String> {
    save(node).lines().filter(|line| line.contains("--to-ports")).map(str::to_owned).collect()
}

/// The first series of that name for the Service. A counter has no series before it has counted something.
fn metric(node: &Node, name: &str) -> Option<f64> {
    let page = node.get("127.0.0.1:10249", "/metrics");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let mut lines = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let line = lines.find(|line| line.contains("service=\"web\""))?;
    line.rsplit(' ').next().and_then(|value| value.parse().ok())
}

#[test]
fn edits_are_followed_and_explained() {
    let node = running(&["10.244.1.2"]);
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1"]);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2", "10.244.2.2"]));
    until("both endpoints answer", || node.answers("pod-a3", WEB) == ["pod-a1", "pod-b1"]);
    node.settle();
    let explained = node.query(&["explain", "10.244.1.4", WEB]);
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(explained.status.success(), "{text}");
    assert!(text.contains("REDIRECT --to-ports <default/web/tcp/cluster>") && text.contains("listener"), "{text}");
    node.remove("web.yaml");
    until("the address is gone", || node.answer("node-a", WEB, Protocol::Tcp) == "silent");
    assert_eq!(redirects(&node), Vec::<String>::new());
}

#[test]
fn endpoints_that_do_not_answer_are_skipped() {
    // One that refuses, one that is silent, and one that answers.
    let node = running(&["10.244.1.2", "10.244.1.3", "10.244.2.3"]);
    let silent = node.lab.host("pod-b2");
    silent.command(&["nft", "add table inet hung"]).unwrap();
    silent.command(&["nft", "add chain inet hung input { type filter hook input priority 0; policy drop; }"]).unwrap();
    for _ in 0..60 {
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
    }
    assert!(metric(&node, "portolan_relay_retries_total") > Some(0.0));
    assert!(metric(&node, "portolan_relay_dial_errors_total") > Some(0.0));
    assert_eq!(metric(&node, "portolan_service_connections_total"), Some(60.0));
    assert!(metric(&node, "portolan_service_bytes_total") > Some(0.0));
    assert_eq!(metric(&node, "portolan_relay_failed_connections_total"), None, "no client was turned away");
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.3"]));
    until("clients are turned away, and counted", || {
        node.answer("pod-a3", WEB, Protocol::Tcp);
        metric(&node, "portolan_relay_failed_connections_total") > Some(0.0)
    });
}

/// With the traffic policy Local, the ClusterIP and the node port have listeners of their own.
#[test]
fn the_listeners_of_a_service_port_are_counted_together() {
    let mut node = Node::new();
    let spec = service("web", WEB_IP, "type: NodePort\n  externalTrafficPolicy: Local", &["10.244.1.2"]);
    let spec = spec.replace("{port: 80,", "{port: 80, nodePort: 30080,");
    node.write("web.yaml", &spec.replace("- addresses: [10.244.1.2]", "- {addresses: [10.244.1.2], nodeName: node-a}"));
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    node.start_with(&TRAFFIC_FLAGS);
    for _ in 0..4 {
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
        assert_eq!(node.answer("client", "192.168.50.1:30080", Protocol::Tcp), "pod-a1");
    }
    assert_eq!(metric(&node, "portolan_service_connections_total"), Some(8.0));
    let redirects = redirects(&node);
    let ports: BTreeSet<&str> = redirects.iter().filter_map(|rule| rule.rsplit(' ').next()).collect();
    assert_eq!(ports.len(), 2, "{redirects:?}");
}

#[test]
fn datagrams_are_carried() {
    let mut node = Node::new();
    node.write("web.yaml", &udp_service("web", WEB_IP, &["10.244.1.2", "10.244.2.2"]));
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Udp);
    node.start_with(&[FLAGS[0], "--udp-timeout=100s"]);
    let client = node.connect("pod-a3", WEB, Protocol::Udp);
    let is_answered_by = |host: &str| client.exchange(b"hello").is_ok_and(|answer| answer.starts_with(host.as_bytes()));
    let first = client.exchange(b"hello").unwrap();
    assert!((0..10).all(|_| client.exchange(b"hello").unwrap() == first), "a client stays with its endpoint");
    // The client moves to the remaining endpoint.
    for (endpoint, host) in [("10.244.1.2", "pod-a1 "), ("10.244.2.2", "pod-b1 ")] {
        node.write("web.yaml", &udp_service("web", WEB_IP, &[endpoint]));
        until("the remaining endpoint answers", || is_answered_by(host));
    }
}

/// Without endpoints there is no listener, and the next one has another port. A client that keeps sending keeps its flow in
/// the connection table, which leads to the former port.
#[test]
fn a_client_that_keeps_sending_finds_the_listener_that_comes_back() {
    let mut node = Node::new();
    let with = |endpoints: &[&str]| udp_service("web", WEB_IP, endpoints);
    node.write("web.yaml", &with(&["10.244.1.2"]));
    node.serve(&["10.244.1.2:8080"], Protocol::Udp);
    node.start_with(&FLAGS);
    let client = node.connect("pod-a3", WEB, Protocol::Udp);
    let is_answered = || client.exchange(b"hello").is_ok();
    assert!(is_answered());
    let before = redirects(&node);
    node.write("web.yaml", &with(&[]));
    until("the listener is closed", || redirects(&node).is_empty());
    _ = is_answered();
    node.write("web.yaml", &with(&["10.244.1.2"]));
    until("the flow leads to the new listener", is_answered);
    assert_ne!(redirects(&node), before, "the listener has another port, or this test shows nothing");
}

/// A source range or a traffic policy would not apply to such a client.
#[test]
fn the_port_of_a_listener_serves_no_client_directly() {
    let mut node = Node::new();
    node.write("web.yaml", &udp_service("web", WEB_IP, &["10.244.1.2"]));
    node.serve(&["10.244.1.2:8080"], Protocol::Udp);
    node.start_with(&FLAGS);
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Udp), "pod-a1");
    let rules = redirects(&node);
    let port = rules[0].rsplit(' ').next().unwrap();
    for (from, address) in [("client", "192.168.50.1"), ("pod-b1", "192.168.50.1"), ("node-a", "127.0.0.1")] {
        assert_eq!(node.answer(from, &format!("{address}:{port}"), Protocol::Udp), "silent", "{from} to {address}");
    }
}

#[test]
fn deleted_rules_are_repaired() {
    let node = running(&["10.244.1.2"]);
    let commands = [
        "iptables-nft -t nat -F KUBE-PORTALS-CONTAINER",
        "iptables-nft -t nat -F PREROUTING",
        "iptables-nft -t nat -F",
    ];
    for (count, line) in (1..).zip(commands) {
        command(&node, line);
        until("the daemon has noticed", || node.log().matches(" repaired ").count() >= count);
        node.settle();
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1", "{line}");
    }
}

#[test]
fn another_process_takes_over_without_a_refused_connection() {
    let mut node = node_with_service();
    node.start_with(&TRAFFIC_FLAGS);
    let rules = redirects(&node);
    let mut traffic = Traffic::start(&node);
    traffic.go_on();
    let mut before = node.replace_with(&TRAFFIC_FLAGS);
    assert_eq!(redirects(&node), rules, "the listeners are the same");
    traffic.go_on();
    assert!(before.try_wait().unwrap().is_none(), "it carries the connections that it had");
    assert!(node.get("127.0.0.1:10249", "/proxyMode").ends_with("userspace"), "{}", node.log());
    traffic.end_lasting();
    until("the process before has ended", || before.try_wait().unwrap().is_some_and(|it: ExitStatus| it.success()));
    traffic.open_more();
    traffic.stop_without_failures();
}

#[test]
fn while_no_daemon_runs_the_kernel_serves() {
    let mut node = node_with_service();
    node.start_with(&TRAFFIC_FLAGS);
    let mut traffic = Traffic::start(&node);
    traffic.go_on();
    traffic.end_lasting();
    for _ in 0..2 {
        assert!(node.stop().success());
        assert!(save(&node).contains(":KUBE-SEP-") && redirects(&node).is_empty());
        traffic.open_more();
        node.start_with(&TRAFFIC_FLAGS);
        until("the daemon serves again", || !save(&node).contains(":KUBE-SEP-"));
        traffic.open_more();
    }
    traffic.stop_without_failures();
}

/// Without an API server there is nothing to serve, and so nothing to write at the end.
#[test]
fn a_daemon_that_never_synced_leaves_the_rules_unchanged() {
    let mut node = running(&["10.244.1.2"]);
    node.stop();
    let before = save(&node);
    let mut lost =
        node.spawn_plainly(&["proxy", FLAGS[0], "--master=http://127.0.0.1:1", "--hostname-override=node-a"]);
    until("it has begun", || node.log().matches("Using userspace Proxier").count() >= 2);
    kill_process(Pid::from_child(&lost), Signal::TERM).unwrap();
    assert!(lost.wait().unwrap().success());
    assert_eq!(save(&node), before);
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1"]);
}

#[test]
fn after_a_crash_the_ports_are_the_same() {
    let mut node = running(&["10.244.1.2"]);
    let rules = redirects(&node);
    node.kill();
    node.start_with(&FLAGS);
    assert_eq!(redirects(&node), rules);
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1"]);
    node.stop();
    let cleanup = node.plainly(&["cleanup"]);
    assert!(cleanup.status.success(), "{cleanup:?}");
    assert!(!save(&node).contains("KUBE-"), "{}", save(&node));
    assert_eq!(
        node.lab.host(topology::NODE).command(&["iptables-nft-save", "-t", "mangle"]).unwrap().matches("KUBE").count(),
        0
    );
}
