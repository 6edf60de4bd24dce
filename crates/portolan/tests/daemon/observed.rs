//! Balancing by what the node observes: endpoints that do not answer, new ones, loaded ones.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;
use portolan_kernel::conntrack::{Conntrack, Flow};
use portolan_testkit::Protocol;

use crate::hanging::{
    annotated, check_that_a_client_with_affinity_leaves_it, check_that_it_is_quarantined, connect, failures,
    failures_once_noticed, hang, node_in, recover,
};
use crate::node::{Node, WEB};
use crate::poll::until;

fn modes_here() -> impl Iterator<Item = &'static dyn Mode> {
    modes::ALL.iter().copied().filter(|mode| mode.missing().is_none())
}

#[test]
fn an_endpoint_that_hangs_gets_no_new_connections_in_any_mode() {
    modes_here().for_each(check_that_it_is_quarantined);
}

/// Its process is gone, and its readiness probe has not noticed.
#[test]
fn an_endpoint_that_refuses_gets_no_new_connections() {
    let mode = modes_here().next().expect("there is a mode");
    let node = node_in(mode, "portolan.dev/quarantine: 'on'");
    connect(&node, Duration::from_secs(1));
    let rules = "add table inet refuse\nadd chain inet refuse input { type filter hook input priority 0; }\n\
        add rule inet refuse input tcp dport 8080 tcp flags syn reject with tcp reset\n";
    node.lab.host("pod-a2").command_with_input(&["nft", "-f", "-"], rules).expect("a pod has its own rules");
    let (failed, all) = failures_once_noticed(&node);
    assert!(failed <= 1, "{failed} of {all} connections fail\n{}", node.log());
}

#[test]
fn an_endpoint_that_answers_again_is_used_again() {
    let mode = modes_here().next().expect("there is a mode");
    let node = node_in(mode, "portolan.dev/quarantine: 'on'");
    hang(&node, "pod-a2");
    connect(&node, Duration::from_secs(3));
    until("it is quarantined", || node.log().contains("10.244.1.3:8080 does not answer"));
    recover(&node, "pod-a2");
    let is_released = || node.log().contains("10.244.1.3:8080 gets new connections again");
    let begin = Instant::now();
    while !is_released() && begin.elapsed() < Duration::from_secs(60) {
        connect(&node, Duration::from_secs(1));
    }
    assert!(is_released(), "{}", node.log());
}

#[test]
fn a_client_with_session_affinity_leaves_an_endpoint_that_hangs_in_any_mode() {
    modes_here().for_each(check_that_a_client_with_affinity_leaves_it);
}

/// Without bounds, 100,000 connections that wait for an answer take 30 MB.
#[test]
fn a_flood_of_connections_costs_the_daemon_bounded_memory() {
    const FLOOD: u32 = 100_000;
    const MOST: usize = 16 << 20;
    let node = node_in(modes::default(), "portolan.dev/quarantine: 'on'");
    connect(&node, Duration::from_secs(1));
    let before = node.resident_bytes();
    let flow = |number: u32| {
        let client = (Ipv4Addr::from(0x0b00_0000 + number), 1000).into();
        let (frontend, endpoint) = (WEB.parse().expect("an address"), "10.244.1.2:8080".parse().expect("an address"));
        let (original_source, reply_destination) = (client, client);
        Flow { protocol: 6, original_source, original_destination: frontend, reply_source: endpoint, reply_destination }
    };
    node.lab.host("node-a").run(|| {
        let mut conntrack = Conntrack::open().expect("the lab has conntrack");
        let insert = |number| conntrack.insert(&flow(number), Duration::from_secs(600)).expect("the table has room");
        (0..FLOOD).for_each(insert);
    });
    let (begin, mut most) = (Instant::now(), 0);
    until("the table is walked several times", || {
        most = most.max(node.resident_bytes());
        begin.elapsed() > Duration::from_secs(5)
    });
    println!("grown by {} bytes", most.saturating_sub(before));
    assert!(most < before + MOST, "{before} bytes before, {most} at most");
    hang(&node, "pod-a2");
    let (failed, all) = failures_once_noticed(&node);
    assert!(failed <= 1, "{failed} of {all} connections fail\n{}", node.log());
    assert!(!node.log().contains("10.244.1.2:8080 does not answer"), "{}", node.log());
}

#[test]
fn without_the_annotation_nothing_is_observed() {
    let mode = modes_here().next().expect("there is a mode");
    let node = node_in(mode, "portolan.dev/quarantine: 'off'");
    hang(&node, "pod-a2");
    let (failed, all) = failures(&connect(&node, Duration::from_secs(4)), Duration::from_secs(2));
    assert!(failed > all / 6, "{failed} of {all}");
    assert!(!node.threads().iter().any(|name| name == "connections"), "{:?}", node.threads());
}

/// The share of an endpoint in the rules, from the answer of the daemon.
fn shares(node: &Node) -> BTreeMap<String, f64> {
    let answer = node.query(&["explain", "10.244.1.4", WEB, "--output", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).expect("explain answers in JSON");
    let candidates = answer["candidates"].as_array().expect("it is forwarded").iter();
    let share = |candidate: &serde_json::Value| {
        let endpoint = candidate["endpoint"].as_str().unwrap_or_default();
        (endpoint.to_owned(), candidate["probability"].as_f64().unwrap_or_default())
    };
    candidates.map(share).collect()
}

#[test]
fn the_share_of_a_new_endpoint_grows() {
    let mode = modes_here().next().expect("there is a mode");
    let node = node_in(mode, "portolan.dev/slow-start: 5s");
    let all = ["10.244.1.2", "10.244.1.3", "10.244.2.2", "10.244.2.3"];
    node.write("web.yaml", &annotated("portolan.dev/slow-start: 5s", &all));
    let share = || shares(&node).get("10.244.2.3:8080").copied().unwrap_or_default();
    let mut seen = Vec::new();
    until("it has its whole share", || {
        seen.push(share());
        seen.last().is_some_and(|share| (share - 0.25).abs() < 0.001)
    });
    seen.retain(|share| *share > 0.0);
    seen.dedup();
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]) && seen.len() > 3, "{seen:?}");
    assert!(seen[0] < 0.1, "{seen:?}");
}

/// Loads are counted every second.
#[test]
fn an_endpoint_with_many_connections_gets_fewer_new_ones() {
    let mode = modes_here().next().expect("there is a mode");
    let node = node_in(mode, "portolan.dev/algorithm: least-connections");
    let open: Vec<_> = (0..19).map(|_| node.connect("pod-a3", "10.244.1.2:8080", Protocol::Tcp)).collect();
    let share = |endpoint: &str| shares(&node).get(endpoint).copied().unwrap_or_default();
    until("the loaded endpoint has a small share", || share("10.244.1.2:8080") < 0.05);
    assert!((share("10.244.1.3:8080") - share("10.244.2.2:8080")).abs() < 0.001, "{:?}", shares(&node));
    drop(open);
    until("all have the same share", || (share("10.244.1.2:8080") - 1.0 / 3.0).abs() < 0.001);
}
