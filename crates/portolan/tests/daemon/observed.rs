//! Balancing by what the node observes: endpoints that do not answer, new ones, loaded ones.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;
use portolan_testkit::Protocol;

use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;

const ENDPOINTS: [&str; 3] = ["10.244.1.2", "10.244.1.3", "10.244.2.2"];
const PER_SECOND: u32 = 100;
/// A connection that takes longer has lost a SYN, or hangs.
const SLOW: Duration = Duration::from_secs(1);

fn annotated(annotations: &str, endpoints: &[&str]) -> String {
    web(WEB_IP, endpoints).replacen("metadata: {", &format!("metadata: {{annotations: {{{annotations}}}, "), 1)
}

fn node_in(mode: &dyn Mode, annotations: &str) -> Node {
    let mut node = Node::new();
    node.serve(&ENDPOINTS.map(|address| format!("{address}:8080")).each_ref().map(|it| &**it), Protocol::Tcp);
    node.write("web.yaml", &annotated(annotations, &ENDPOINTS));
    node.start_with(&[&format!("--proxy-mode={}", mode.name())]);
    node
}

/// The pod drops everything that it gets, as one whose machine hangs.
fn hang(node: &Node, pod: &str) {
    let rules = "add table inet hang\nadd chain inet hang input { type filter hook input priority 0; policy drop; }\n";
    node.lab.host(pod).command_with_input(&["nft", "-f", "-"], rules).expect("a pod has its own rules");
}

fn recover(node: &Node, pod: &str) {
    node.lab.host(pod).command(&["nft", "delete", "table", "inet", "hang"]).expect("the pod hangs");
}

/// When each connection began, and whether it was slow or failed.
type Connections = Vec<(Duration, bool)>;

/// Opens connections at a rate, none of which waits for another.
fn connect(node: &Node, time: Duration) -> Connections {
    let begin = Instant::now();
    node.lab.host("pod-a3").run(|| {
        thread::scope(|scope| {
            let open = || {
                let start = begin.elapsed();
                let is_open = TcpStream::connect_timeout(&WEB.parse().expect("an address"), SLOW).is_ok();
                (start, !is_open)
            };
            let count = time.as_millis() as u32 * PER_SECOND / 1000;
            let threads: Vec<_> = (0..count)
                .map(|number| {
                    let due = Duration::from_secs(1) * number / PER_SECOND;
                    thread::sleep(due.saturating_sub(begin.elapsed()));
                    scope.spawn(open)
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        })
    })
}

fn failures(connections: &Connections, from: Duration) -> (usize, usize) {
    let later = connections.iter().filter(|(start, _)| *start >= from);
    (later.clone().filter(|(_, failed)| *failed).count(), later.count())
}

fn modes_here() -> impl Iterator<Item = &'static dyn Mode> {
    modes::ALL.iter().copied().filter(|mode| mode.missing().is_none())
}

/// After three seconds at most one in a thousand connections may fail. Without quarantine it is every third one.
#[test]
fn an_endpoint_that_hangs_gets_no_new_connections_in_any_mode() {
    for mode in modes_here() {
        let node = node_in(mode, "portolan.dev/quarantine: 'on'");
        connect(&node, Duration::from_secs(1));
        hang(&node, "pod-a2");
        let connections = connect(&node, Duration::from_secs(8));
        let (failed, all) = failures(&connections, Duration::from_secs(4));
        println!("{} mode: {failed} of {all} fail after 4 s", mode.name());
        assert!(failed <= 1, "{} mode: {failed} of {all} connections fail\n{}", mode.name(), node.log());
        assert!(node.log().contains("10.244.1.3:8080 does not answer"), "{}", node.log());
        let services = String::from_utf8(node.query(&["services"]).stdout).expect("it is text");
        assert!(services.contains("1 quarantined"), "{services}");
        let metrics = node.get("127.0.0.1:10249", "/metrics");
        assert!(metrics.contains("\nportolan_quarantined_endpoints 1\n"), "{metrics}");
    }
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
    let (failed, all) = failures(&connect(&node, Duration::from_secs(6)), Duration::from_secs(3));
    assert!(failed <= 1, "{failed} of {all} connections fail\n{}", node.log());
    assert!(node.log().contains("10.244.1.3:8080 does not answer"), "{}", node.log());
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
