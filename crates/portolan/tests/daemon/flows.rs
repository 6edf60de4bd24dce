//! Client state in the kernel: UDP flows and session affinity.

use crate::node::{Node, WEB, WEB_IP, service, udp_service};
use crate::poll::until;
use portolan_testkit::{LongConnection, Protocol, topology};

const PODS: [&str; 3] = ["10.244.1.2:8080", "10.244.1.3:8080", "10.244.2.2:8080"];

/// The host that answers the next datagram of the flow.
fn next_answer(flow: &LongConnection) -> String {
    match flow.exchange(b"hello") {
        Ok(line) => String::from_utf8(line).unwrap().split(' ').next().unwrap().to_owned(),
        Err(error) => error.kind().to_string(),
    }
}

#[test]
fn a_udp_flow_leaves_an_endpoint_that_is_gone() {
    let node = Node::running(&[("web.yaml", &udp_service("web", WEB_IP, &["10.244.1.2"]))]);
    node.serve(&PODS, Protocol::Udp);
    let flow = node.connect("pod-a3", WEB, Protocol::Udp);
    assert_eq!(next_answer(&flow), "pod-a1");
    node.write("web.yaml", &udp_service("web", WEB_IP, &["10.244.2.2"]));
    until("the flow moves", || next_answer(&flow) == "pod-b1");
}

#[test]
fn the_udp_flows_of_a_deleted_service_are_forgotten() {
    let node = Node::running(&[("web.yaml", &udp_service("web", WEB_IP, &["10.244.1.2"]))]);
    node.serve(&PODS, Protocol::Udp);
    let flow = node.connect("pod-a3", WEB, Protocol::Udp);
    assert_eq!(next_answer(&flow), "pod-a1");
    assert!(udp_flows(&node).contains("src=10.244.1.2"));
    node.remove("web.yaml");
    until("the flow is deleted", || !udp_flows(&node).contains("src=10.244.1.2"));
}

fn udp_flows(node: &Node) -> String {
    let words = ["conntrack", "-L", "-p", "udp", "--orig-dst", WEB_IP];
    node.lab.host(topology::NODE).command(&words).unwrap_or_else(|error| panic!("{error}"))
}

/// Changes while the daemon was stopped are found by reading every flow.
#[test]
fn a_udp_flow_that_went_stale_during_a_restart_moves() {
    let mut node = Node::running(&[("web.yaml", &udp_service("web", WEB_IP, &["10.244.1.2"]))]);
    node.serve(&PODS, Protocol::Udp);
    let flow = node.connect("pod-a3", WEB, Protocol::Udp);
    node.kill();
    node.write("web.yaml", &udp_service("web", WEB_IP, &["10.244.2.2"]));
    node.start();
    until("the flow moves", || next_answer(&flow) == "pod-b1");
}

fn sticky(endpoints: &[&str]) -> String {
    service("web", WEB_IP, "sessionAffinity: ClientIP", endpoints)
}

#[test]
fn a_client_stays_until_its_endpoint_leaves() {
    let all = ["10.244.1.2", "10.244.1.3", "10.244.2.2"];
    let node = Node::running(&[("web.yaml", &sticky(&all))]);
    node.serve(&PODS, Protocol::Tcp);
    let before = node.answers("client", WEB);
    let [first] = &before[..] else { panic!("several answered: {before:?}") };
    let gone = topology::by_name(first).unwrap().ipv4[0].to_string();
    let rest: Vec<&str> = all.into_iter().filter(|it| *it != gone).collect();
    node.write("web.yaml", &sticky(&rest));
    until("the client is moved", || node.answer("client", WEB, Protocol::Tcp) != *first);
    node.settle();
    let after = node.answers("client", WEB);
    assert_eq!(after.len(), 1, "{after:?}");
    node.write("web.yaml", &sticky(&all));
    until("the endpoint is back", || node.nft("list map ip portolan endpoints").contains(&gone));
    node.settle();
    assert_eq!(node.answers("client", WEB), after, "a client stays also when another endpoint comes");
}
