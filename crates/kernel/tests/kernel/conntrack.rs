//! Deletes exactly the matching tracked connections.

use std::net::SocketAddr;
use std::time::Duration;

use portolan_kernel::conntrack::{Conntrack, Flow};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const UDP: u8 = 17;
const TCP: u8 = 6;
fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn flow(protocol: u8, client: &str, service: &str, endpoint: &str) -> Flow {
    Flow {
        protocol,
        original_source: address(client),
        original_destination: address(service),
        reply_source: address(endpoint),
        reply_destination: address(client),
    }
}

/// Two services with two endpoints each, one of them with both protocols, and one for IPv6.
fn all_flows() -> Vec<Flow> {
    let mut flows = vec![
        flow(UDP, "10.1.0.1:1000", "10.96.0.1:53", "10.2.0.1:5353"),
        flow(UDP, "10.1.0.2:1000", "10.96.0.1:53", "10.2.0.2:5353"),
        flow(UDP, "10.1.0.3:1000", "10.96.0.1:54", "10.2.0.1:5454"),
        flow(UDP, "10.1.0.4:1000", "10.96.0.2:53", "10.2.0.1:5353"),
        flow(UDP, "10.1.0.5:1000", "192.168.0.1:30053", "10.2.0.1:5353"),
        flow(TCP, "10.1.0.1:1000", "10.96.0.1:53", "10.2.0.1:5353"),
        flow(UDP, "[fd01::1]:1000", "[fd96::1]:53", "[fd02::1]:5353"),
        flow(UDP, "[fd01::2]:1000", "[fd96::1]:53", "[fd02::2]:5353"),
    ];
    flows.sort();
    flows
}

fn filled(mut conntrack: Conntrack) -> Conntrack {
    for flow in all_flows() {
        conntrack.insert(&flow, Duration::from_secs(600)).expect("a flow can be added");
    }
    conntrack
}

fn tracked(conntrack: &mut Conntrack) -> Vec<Flow> {
    let mut flows = Vec::new();
    for family in [Family::V4, Family::V6] {
        for protocol in [UDP, TCP] {
            let found = conntrack.flows(family, protocol, |_| true);
            flows.extend(found.expect("flows can be read"));
        }
    }
    flows.sort();
    flows
}

/// Flows of one protocol and family are chosen, and only those are deleted.
#[test]
fn exactly_the_chosen_flows_are_deleted() {
    for (family, endpoint) in [(Family::V4, "10.2.0.1:5353"), (Family::V6, "[fd02::2]:5353")] {
        new_namespace();
        let mut conntrack = filled(Conntrack::open().unwrap());
        let endpoint = address(endpoint);
        let chosen = conntrack.flows(family, UDP, |flow| flow.reply_source == endpoint).unwrap();
        let (gone, left): (Vec<Flow>, Vec<Flow>) =
            all_flows().into_iter().partition(|flow| flow.protocol == UDP && flow.reply_source == endpoint);
        assert_eq!(conntrack.delete_flows(&chosen).unwrap(), gone.len());
        assert_eq!(tracked(&mut conntrack), left);
    }
}

/// Flows end by themselves between a walk and the deletion.
#[test]
fn flows_that_are_gone_already_are_not_counted() {
    new_namespace();
    let mut conntrack = filled(Conntrack::open().unwrap());
    let flows = all_flows();
    assert_eq!(conntrack.delete_flows(&flows[..2]).unwrap(), 2);
    assert_eq!(conntrack.delete_flows(&flows[..5]).unwrap(), 3);
    assert_eq!(tracked(&mut conntrack), flows[5..]);
    let listed = run("conntrack", &["-L", "-p", "tcp", "-o", "extended"]);
    assert!(listed.lines().count() <= 1, "{listed}");
}

#[test]
fn a_flow_is_found_by_either_direction() {
    new_namespace();
    let mut conntrack = filled(Conntrack::open().expect("root"));
    for flow in all_flows() {
        let original = conntrack.find(flow.protocol, flow.original_source, flow.original_destination);
        let reply = conntrack.find(flow.protocol, flow.reply_source, flow.reply_destination);
        assert_eq!((original.expect("readable"), reply.expect("readable")), (Some(flow), Some(flow)));
    }
    let unknown = conntrack.find(UDP, address("10.1.0.9:1000"), address("10.96.0.1:53"));
    assert_eq!(unknown.expect("no error"), None);
}
