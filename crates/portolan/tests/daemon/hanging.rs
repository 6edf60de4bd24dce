//! One of three endpoints hangs while connections come at a steady rate.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use portolan_dataplane::mode::Mode;
use portolan_testkit::Protocol;

use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;

const ENDPOINTS: [&str; 3] = ["10.244.1.2", "10.244.1.3", "10.244.2.2"];
/// Emulation is slow.
fn per_second() -> u32 {
    if std::env::var_os("IN_TEST_VM").is_some() { 20 } else { 100 }
}

/// A connection that takes longer has lost a SYN, or hangs. Emulation takes a second for a connection now and then.
fn slow() -> Duration {
    Duration::from_secs(if std::env::var_os("IN_TEST_VM").is_some() { 5 } else { 1 })
}

pub(crate) fn annotated(annotations: &str, endpoints: &[&str]) -> String {
    web(WEB_IP, endpoints).replacen("metadata: {", &format!("metadata: {{annotations: {{{annotations}}}, "), 1)
}

pub(crate) fn node_in(mode: &dyn Mode, annotations: &str) -> Node {
    node_with(mode, &annotated(annotations, &ENDPOINTS))
}

/// The manifest has these endpoints.
fn node_with(mode: &dyn Mode, manifest: &str) -> Node {
    let mut node = Node::new();
    node.serve(&ENDPOINTS.map(|address| format!("{address}:8080")).each_ref().map(|it| &**it), Protocol::Tcp);
    node.write("web.yaml", manifest);
    node.start_with(&[&format!("--proxy-mode={}", mode.name())]);
    node
}

/// The pod drops everything that it gets, as one whose machine hangs.
pub(crate) fn hang(node: &Node, pod: &str) {
    let rules = "add table inet hang\nadd chain inet hang input { type filter hook input priority 0; policy drop; }\n";
    node.lab.host(pod).command_with_input(&["nft", "-f", "-"], rules).expect("a pod has its own rules");
}

pub(crate) fn recover(node: &Node, pod: &str) {
    node.lab.host(pod).command(&["nft", "delete", "table", "inet", "hang"]).expect("the pod hangs");
}

/// When each connection began, and whether it was slow or failed.
pub(crate) type Connections = Vec<(Duration, bool)>;

/// Opens connections at a rate, none of which waits for another.
pub(crate) fn connect(node: &Node, time: Duration) -> Connections {
    let begin = Instant::now();
    node.lab.host("pod-a3").run(|| {
        thread::scope(|scope| {
            let open = || {
                let start = begin.elapsed();
                let is_open = TcpStream::connect_timeout(&WEB.parse().expect("an address"), slow()).is_ok();
                (start, !is_open)
            };
            let count = time.as_millis() as u32 * per_second() / 1000;
            let threads: Vec<_> = (0..count)
                .map(|number| {
                    let due = Duration::from_secs(1) * number / per_second();
                    until("the next connection is due", || begin.elapsed() >= due);
                    scope.spawn(open)
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        })
    })
}

pub(crate) fn failures(connections: &Connections, from: Duration) -> (usize, usize) {
    let later = connections.iter().filter(|(start, _)| *start >= from);
    (later.clone().filter(|(_, failed)| *failed).count(), later.count())
}

/// Connections that fail after the daemon has noticed that an endpoint does not answer, and all.
pub(crate) fn failures_once_noticed(node: &Node) -> (usize, usize) {
    let is_noticed = || node.log().contains("10.244.1.3:8080 does not answer");
    for _ in 0..20 {
        if is_noticed() {
            break;
        }
        connect(node, Duration::from_secs(1));
    }
    assert!(is_noticed(), "{}", node.log());
    failures(&connect(node, Duration::from_secs(3)), Duration::ZERO)
}

/// Once it is noticed, no more connections reach it. Without quarantine every third one does; a tenth allows for a busy
/// machine, and for the few connections that try it again.
pub(crate) fn check_that_it_is_quarantined(mode: &dyn Mode) {
    let node = node_in(mode, "portolan.dev/quarantine: 'on'");
    connect(&node, Duration::from_secs(1));
    hang(&node, "pod-a2");
    let (failed, all) = failures_once_noticed(&node);
    println!("{} mode: {failed} of {all} fail once it is noticed", mode.name());
    assert!(failed <= all / 10, "{} mode: {failed} of {all} connections fail\n{}", mode.name(), node.log());
    let services = String::from_utf8(node.query(&["services"]).stdout).expect("it is text");
    assert!(services.contains("1 quarantined"), "{services}");
    let metrics = node.get("127.0.0.1:10249", "/metrics");
    assert!(metrics.contains("\nportolan_quarantined_endpoints 1\n"), "{metrics}");
}

/// A client with session affinity has no other endpoint that could vouch for it.
pub(crate) fn check_that_a_client_with_affinity_leaves_it(mode: &dyn Mode) {
    let web = annotated("portolan.dev/quarantine: 'on'", &ENDPOINTS);
    let node = node_with(mode, &web.replace("type: ClusterIP", "sessionAffinity: ClientIP"));
    assert_eq!(node.answers("pod-a3", WEB).len(), 1, "the client keeps its endpoint");
    let before = node.answer("pod-a3", WEB, Protocol::Tcp);
    hang(&node, &before);
    until("it is quarantined", || {
        connect(&node, Duration::from_secs(1));
        node.log().contains("does not answer: it gets no new connections")
    });
    let is_other = |answer: String| answer.starts_with("pod-") && answer != before;
    until("another endpoint serves it", || is_other(node.answer("pod-a3", WEB, Protocol::Tcp)));
    assert_eq!(node.answers("pod-a3", WEB).len(), 1, "{} mode: it keeps the new one", mode.name());
}
