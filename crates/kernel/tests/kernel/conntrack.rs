//! Deletes exactly the matching tracked connections.

use std::net::SocketAddr;
use std::time::Duration;

use portolan_kernel::conntrack::{Conntrack, Flow, TcpFlow, TcpFlowId, TcpState, Tracked};
use portolan_kernel::nftables::Count;
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

/// By the kernel's own tool, which can set states.
fn insert_tcp(client: &str, state: &str, seconds: &str, status: &str) {
    let tuple = ["-I", "-p", "tcp", "-s", client, "-d", "10.96.0.1", "--sport", "1000", "--dport", "80"];
    let reply = ["-r", "10.2.0.1", "-q", client, "--reply-port-src", "8080", "--reply-port-dst", "1000"];
    let rest = ["-t", seconds, "--state", state, "-u", status];
    run("conntrack", &[&tuple[..], &reply[..], &rest[..]].concat());
}

#[test]
fn tcp_connections_have_a_state_and_the_time_that_is_left() {
    new_namespace();
    insert_tcp("10.1.0.1", "ESTABLISHED", "600", "SEEN_REPLY,ASSURED");
    insert_tcp("10.1.0.2", "SYN_SENT", "100", "UNSET");
    insert_tcp("10.1.0.3", "SYN_RECV", "100", "SEEN_REPLY");
    insert_tcp("10.1.0.4", "TIME_WAIT", "100", "SEEN_REPLY,ASSURED");
    let mut conntrack = Conntrack::open().unwrap();
    conntrack.insert(&flow(UDP, "10.1.0.5:1000", "10.96.0.1:80", "10.2.0.1:8080"), Duration::from_secs(600)).unwrap();
    let mut flows: Vec<TcpFlow> = conntrack.tcp_flows(Family::V4, |all: &mut Vec<_>, flow| all.push(*flow)).unwrap();
    flows.sort_by_key(|flow| flow.flow);
    let seen = |flow: &TcpFlow| (flow.state, flow.is_replied, flow.is_assured);
    let expected = [
        (TcpState::Established, true, true),
        (TcpState::Opening, false, false),
        (TcpState::Answered, true, false),
        (TcpState::Closed, true, true),
    ];
    assert_eq!(flows.iter().map(seen).collect::<Vec<_>>(), expected);
    let first = flows[0];
    assert_eq!(first.flow, flow(TCP, "10.1.0.1:1000", "10.96.0.1:80", "10.2.0.1:8080"));
    assert!((590..=600).contains(&first.timeout_left.as_secs()), "{first:?}");
    let found = conntrack.find_tcp(address("10.2.0.1:8080"), address("10.1.0.1:1000")).unwrap().unwrap();
    assert_eq!((found.flow, seen(&found)), (first.flow, expected[0]));
    let later = TcpFlow { id: TcpFlowId([0; 4]), ..found };
    assert_eq!(conntrack.delete_tcp(&[later, found]).unwrap(), 1, "another connection between the same addresses");
    assert_eq!(conntrack.find_tcp(address("10.2.0.1:8080"), address("10.1.0.1:1000")).unwrap(), None);
    assert_eq!(conntrack.find_tcp(address("10.1.0.5:1000"), address("10.96.0.1:80")).unwrap(), None);
    assert_eq!(conntrack.tcp_flows(Family::V6, |count: &mut u32, _| *count += 1).unwrap(), 0);
}

/// The kernel counts and dates connections of a namespace that asks for it.
#[test]
fn accounting_is_read_where_there_is_any() {
    new_namespace();
    let mut conntrack = Conntrack::open().unwrap();
    let plain = flow(UDP, "10.1.0.5:1000", "10.96.0.1:80", "10.2.0.1:8080");
    conntrack.insert(&plain, Duration::from_secs(600)).unwrap();
    let found = conntrack.find_tracked(UDP, plain.original_source, plain.original_destination).unwrap().unwrap();
    assert_eq!((found.flow, found.sent, found.started), (plain, None, None));
    for setting in ["nf_conntrack_acct", "nf_conntrack_timestamp"] {
        std::fs::write(format!("/proc/sys/net/netfilter/{setting}"), "1").unwrap();
    }
    insert_tcp("10.1.0.1", "ESTABLISHED", "600", "SEEN_REPLY,ASSURED");
    insert_tcp("10.1.0.4", "TIME_WAIT", "100", "SEEN_REPLY,ASSURED");
    let all: Vec<Tracked> = conntrack.tracked(Family::V4, |all: &mut Vec<_>, tracked| all.push(*tracked)).unwrap();
    assert_eq!(all.len(), 3);
    let of = |client: &str| all.iter().find(|it| it.flow.original_source == address(client)).unwrap();
    let counted = of("10.1.0.1:1000");
    assert_eq!((counted.sent, counted.received), (Some(Count::default()), Some(Count::default())));
    assert!(counted.started.unwrap().elapsed().unwrap() < Duration::from_secs(60), "{counted:?}");
    assert!(!counted.is_closed() && of("10.1.0.4:1000").is_closed() && !of("10.1.0.5:1000").is_closed());
}
