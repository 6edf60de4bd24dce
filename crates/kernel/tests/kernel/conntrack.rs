//! Deletes exactly the matching tracked connections.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use portolan_kernel::conntrack::{Conntrack, Flow, FlowFilter};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const UDP: u8 = 17;
const TCP: u8 = 6;
const NONE: FlowFilter = FlowFilter {
    family: Family::V4,
    protocol: UDP,
    original_destination: None,
    original_destination_port: None,
    reply_source: None,
    reply_source_port: None,
};

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn ip(text: &str) -> IpAddr {
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
            let found = conntrack.flows(family, protocol);
            flows.extend(found.expect("flows can be read"));
        }
    }
    flows.sort();
    flows
}

/// Filters, and the clients whose flows they delete.
fn cases() -> Vec<(FlowFilter, &'static [&'static str])> {
    let service =
        FlowFilter { original_destination: Some(ip("10.96.0.1")), original_destination_port: Some(53), ..NONE };
    let endpoint_of_service = FlowFilter { reply_source: Some(ip("10.2.0.1")), ..service.clone() };
    let endpoint = FlowFilter { reply_source: Some(ip("10.2.0.1")), reply_source_port: Some(5353), ..NONE };
    let node_port = FlowFilter { original_destination_port: Some(30053), ..NONE };
    let six = FlowFilter {
        family: Family::V6,
        original_destination: Some(ip("fd96::1")),
        original_destination_port: Some(53),
        reply_source: Some(ip("fd02::2")),
        reply_source_port: Some(5353),
        ..NONE
    };
    let port_six = FlowFilter { family: Family::V6, original_destination_port: Some(53), ..NONE };
    let nothing_six = FlowFilter { family: Family::V6, original_destination: Some(ip("fd96::9")), ..NONE };
    let nothing = FlowFilter { original_destination: Some(ip("10.96.0.9")), ..NONE };
    let tcp = FlowFilter { protocol: TCP, ..service.clone() };
    vec![
        (service, &["10.1.0.1:1000", "10.1.0.2:1000"]),
        (endpoint_of_service, &["10.1.0.1:1000"]),
        (endpoint, &["10.1.0.1:1000", "10.1.0.4:1000", "10.1.0.5:1000"]),
        (node_port, &["10.1.0.5:1000"]),
        (six, &["[fd01::2]:1000"]),
        (port_six, &["[fd01::1]:1000", "[fd01::2]:1000"]),
        (nothing, &[]),
        (nothing_six, &[]),
        (tcp, &["10.1.0.1:1000"]),
    ]
}

fn check(conntrack: Conntrack, filter: &FlowFilter, gone: &[&str]) {
    let mut conntrack = filled(conntrack);
    assert_eq!(tracked(&mut conntrack), all_flows());
    conntrack.delete_matching(filter).expect("flows can be deleted");
    let is_gone =
        |flow: &Flow| flow.protocol == filter.protocol && gone.contains(&flow.original_source.to_string().as_str());
    let mut left = all_flows();
    left.retain(|flow| !is_gone(flow));
    assert_eq!(tracked(&mut conntrack), left, "{filter:?}");
}

#[test]
fn filters_delete_exactly_the_flows_that_match() {
    for (filter, gone) in cases() {
        new_namespace();
        check(Conntrack::open().unwrap(), &filter, gone);
    }
}

#[test]
fn without_filters_in_the_kernel_the_same_flows_are_deleted() {
    for (filter, gone) in cases() {
        new_namespace();
        let conntrack = Conntrack::open().unwrap().without_kernel_filters();
        check(conntrack, &filter, gone);
    }
}

#[test]
fn a_filter_that_would_match_everything_deletes_nothing() {
    new_namespace();
    let mut conntrack = filled(Conntrack::open().unwrap());
    let error = conntrack.delete_matching(&NONE).unwrap_err();
    assert!(error.to_string().contains("every connection"), "{error}");
    let wrong_family = FlowFilter { family: Family::V6, original_destination: Some(ip("10.96.0.1")), ..NONE };
    let error = conntrack.delete_matching(&wrong_family).unwrap_err();
    assert!(error.to_string().contains("other family"), "{error}");
    assert_eq!(tracked(&mut conntrack), all_flows());
}

#[test]
fn one_flow_is_deleted_once_and_then_gone() {
    new_namespace();
    let mut conntrack = filled(Conntrack::open().unwrap());
    let mut flows = all_flows();
    let flow = flows.pop().unwrap();
    conntrack.delete_flow(&flow).unwrap();
    conntrack.delete_flow(&flow).unwrap();
    assert_eq!(tracked(&mut conntrack), flows);
    let listed = run("conntrack", &["-L", "-p", "tcp", "-o", "extended"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
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
