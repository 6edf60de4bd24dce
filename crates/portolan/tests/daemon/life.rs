//! Start, stop, crash and restart.

use crate::node::{Node, WEB, WEB_IP, service, web};
use crate::poll::until;
use portolan_testkit::Protocol;

const BOTH: [&str; 2] = ["10.244.1.2:8080", "10.244.2.2:8080"];

fn node() -> Node {
    let other = service("other", "10.96.0.81", "type: NodePort", &["10.244.2.2"]);
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"])), ("other.yaml", &other)]);
    node.serve(&BOTH, Protocol::Tcp);
    node
}

#[test]
fn stopping_leaves_the_rules_in_place() {
    let mut node = node();
    let generation = node.generation();
    assert_eq!(node.stop().code(), Some(0));
    assert_eq!(node.generation(), generation);
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
    assert_eq!(node.answer("client", "10.96.0.81:80", Protocol::Tcp), "pod-b1");
    assert!(node.log().contains("stopping; the rules stay in place"));
}

/// A restart finds all objects, including node ports that it allocated itself, and writes nothing.
#[test]
fn a_restart_writes_nothing() {
    let mut node = node();
    let services = node.query(&["services"]).stdout;
    let generation = node.generation();
    node.stop();
    node.start();
    assert_eq!(node.generation(), generation);
    assert_eq!(node.query(&["services"]).stdout, services);
    until("nothing is written", || node.log().contains(", 0 objects written"));
}

#[test]
fn connections_outlive_a_crash() {
    let mut node = node();
    let generation = node.generation();
    let connection = node.connect("pod-a3", WEB, Protocol::Tcp);
    node.kill();
    assert_eq!(connection.exchange(b"dead").unwrap(), b"dead");
    node.start();
    assert_eq!(connection.exchange(b"alive").unwrap(), b"alive");
    assert_eq!(node.generation(), generation);
}

/// Changes while the daemon was stopped are repaired at the start.
#[test]
fn a_start_catches_up() {
    let mut node = node();
    node.kill();
    node.nft(&format!("flush chain ip portolan {}", some_chain(&node)));
    node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
    node.remove("other.yaml");
    node.start();
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-b1");
    assert!(!node.nft("list map ip portolan services").contains("10.96.0.81"));
}

/// Any chain of ours.
pub(crate) fn some_chain(node: &Node) -> String {
    let listing = node.nft("list table ip portolan");
    let chain = listing.lines().find_map(|line| line.trim().strip_prefix("chain ")).unwrap();
    chain.split(' ').next().unwrap().to_owned()
}
