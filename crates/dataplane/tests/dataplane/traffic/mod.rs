//! Counters of real packets, and their totals after changes.

mod crowd;
mod node;

use std::net::{SocketAddr, UdpSocket};

use node::{Node, of, sum};
use portolan_dataplane::nft::Nftables;
use portolan_dataplane::traffic::{CountTraffic, TrafficSample, Usage};
use portolan_kernel::nftables::Count;
use portolan_model::{Family, Protocol};
use portolan_plan::{Reason, Refusal};

const MODE: fn() -> Nftables = || Nftables::new(14);
const VIP: &str = "10.96.0.10:80";
const HEADERS: u64 = 20 + 8;
const HEADERS6: u64 = 40 + 8;

fn counting() -> Node {
    Node::new(MODE())
}

/// Some datagrams of one flow, and the expected counters.
fn exchange_datagrams(node: &Node, from: &str, to: &str, times: u64, headers: u64) -> Usage {
    let flow = node.connect(from, to, Protocol::Udp);
    // Opening sends a datagram, too; all answers have the same length.
    let answers: Vec<usize> = (1..times).map(|_| flow.exchange(b"hello").expect("an answer").len()).collect();
    let length = answers[0] as u64;
    node.keep(flow);
    Usage {
        connections: 1,
        requests: Count { packets: times, bytes: times * (headers + 5) },
        replies: Count { packets: times, bytes: times * (headers + length) },
    }
}

#[test]
fn every_flow_packet_and_byte_is_counted() {
    let mut node = counting();
    node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.1.3:8080", "10.244.2.2:8080"]);
    let flows: Vec<Usage> = (0..20).map(|_| exchange_datagrams(&node, "pod-a1", VIP, 5, HEADERS)).collect();
    let web = of(&node.read(), "web");
    // The server's line contains the client's port, so that answers of two flows may differ in length.
    assert_eq!(web.total, sum(flows.iter()));
    assert_eq!(sum(web.endpoints.values()), web.total);
    assert_eq!(web.endpoints.len(), 2, "twenty flows miss an endpoint once in 500,000 runs");
}

#[test]
fn ipv6_is_counted_the_same() {
    let mut node = counting();
    node.put("web", "fd00:10:96::10", Protocol::Udp, &["[fd00:10:244:1::3]:8080"]);
    let expected = exchange_datagrams(&node, "pod-a1", "[fd00:10:96::10]:80", 4, HEADERS6);
    assert_eq!(of(&node.read(), "web").total, expected);
}

/// The node's own packets to itself pass the hooks twice, and packets that end on the node never leave it.
#[test]
fn an_endpoint_on_the_node_itself_is_counted_once() {
    let mut node = counting();
    node.put("web", "10.96.0.10", Protocol::Udp, &["192.168.50.1:8080"]);
    for client in ["node-a", "pod-a1", "client"] {
        let before = of(&node.read(), "web").total;
        let expected = exchange_datagrams(&node, client, VIP, 3, HEADERS);
        assert_eq!(of(&node.read(), "web").total, sum([before, expected].iter()), "from {client}");
    }
}

/// Connection tracking has its own counters for each connection: an independent reference.
#[test]
fn tcp_is_counted_as_connection_tracking_accounts_for_it() {
    let mut node = counting();
    node.command(&["sysctl", "-q", "-w", "net.netfilter.nf_conntrack_acct=1"]);
    node.put("web", "10.96.0.10", Protocol::Tcp, &["10.244.1.3:8080", "10.244.2.2:8080"]);
    let connections: Vec<_> = (0..10).map(|_| node.connect("pod-a1", VIP, Protocol::Tcp)).collect();
    connections.iter().for_each(|it| _ = it.exchange(&[7; 100_000]).expect("an echo"));
    let lab = node.lab.clone();
    let sample = node.read_until("both agree", |sample| of(sample, "web").total == accounted(&lab));
    let web = of(&sample, "web");
    assert_eq!(web.total.connections, 10);
    assert!(web.total.requests.bytes > 1_000_000 && web.total.replies.bytes > 1_000_000, "{web:?}");
    assert_eq!(sum(web.endpoints.values()), web.total);
}

fn accounted(lab: &portolan_testkit::Lab) -> Usage {
    let words = ["conntrack", "-L", "-p", "tcp", "--orig-dst", "10.96.0.10"];
    let text = lab.host("node-a").command(&words).expect("conntrack lists (Debian package conntrack)");
    let numbers = |line: &str, name: &str| -> Vec<u64> {
        line.split_whitespace().filter_map(|word| word.strip_prefix(name)?.parse().ok()).collect()
    };
    let flows: Vec<Usage> = text
        .lines()
        .map(|line| {
            let (packets, bytes) = (numbers(line, "packets="), numbers(line, "bytes="));
            let count = |way: usize| Count { packets: packets[way], bytes: bytes[way] };
            Usage { connections: 1, requests: count(0), replies: count(1) }
        })
        .collect();
    sum(flows.iter())
}

#[test]
fn refusals_are_counted_by_reason() {
    let mut node = counting();
    node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.1.3:8080"]);
    node.put("empty", "10.96.0.11", Protocol::Udp, &[]);
    node.put("empty6", "fd00:10:96::11", Protocol::Udp, &[]);
    for (times, to) in [(1, "10.96.0.10:81"), (2, "10.96.0.11:80"), (3, "10.96.0.77:80"), (4, "[fd00:10:96::11]:80")] {
        node.lab.host("pod-a1").run(|| (0..times).for_each(|_| send(to)));
    }
    let expected = [
        (Family::V4, Refusal::Reject(Reason::UnknownPort), 1, HEADERS + 5),
        (Family::V4, Refusal::Reject(Reason::NoEndpoints), 2, 2 * (HEADERS + 5)),
        (Family::V4, Refusal::Drop(Reason::UnallocatedAddress), 3, 3 * (HEADERS + 5)),
        (Family::V6, Refusal::Reject(Reason::NoEndpoints), 4, 4 * (HEADERS6 + 5)),
        (Family::V4, Refusal::Drop(Reason::NoLocalEndpoints), 0, 0),
    ];
    let is_right = |sample: &TrafficSample| {
        expected.iter().all(|(family, refusal, packets, bytes)| {
            sample.refusals[&(*family, *refusal)] == Count { packets: *packets, bytes: *bytes }
        })
    };
    let sample = node.read_until("all are counted", is_right);
    assert!(sample.services.is_empty(), "{sample:?}");
}

/// One datagram from a new socket.
fn send(to: &str) {
    let to: SocketAddr = to.parse().expect("an address");
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    UdpSocket::bind(any).expect("a free port").send_to(b"hello", to).expect("a route");
}

#[test]
fn numbers_survive_updates_and_restarts() {
    let mut node = counting();
    node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.1.3:8080"]);
    exchange_datagrams(&node, "pod-a1", VIP, 5, HEADERS);
    let before = node.read();
    assert!(node.put("other", "10.96.0.11", Protocol::Udp, &["10.244.2.2:8080"]).objects > 0);
    assert!(node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.1.3:8080", "10.244.2.2:8080"]).objects > 0);
    assert_eq!(node.read(), before);
    assert_eq!(node.restart(MODE()).objects, 0, "counters are no difference");
    assert_eq!(node.read(), before);
    assert!(node.is_as_planned(&MODE()));
}

#[test]
fn an_endpoint_that_leaves_stays_in_the_total_and_leaves_the_kernel() {
    let mut node = counting();
    node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.1.3:8080"]);
    exchange_datagrams(&node, "pod-a1", VIP, 5, HEADERS);
    let before = of(&node.read(), "web").total;
    node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.2.2:8080"]);
    let sample = node.read_until("the kernel forgets the pair", |sample| sample.pairs == 0);
    assert_eq!((of(&sample, "web").total, of(&sample, "web").endpoints.len()), (before, 0));
    assert!(!node.command(&["nft", "list", "table", "ip", "portolan"]).contains("counter packets 5"));
    // The total continues from there, also when the endpoint returns and the kernel restarts its counter.
    node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.1.3:8080"]);
    let more = exchange_datagrams(&node, "pod-a1", VIP, 2, HEADERS);
    let web = of(&node.read(), "web");
    assert_eq!(web.total, sum([before, more].iter()));
    assert_eq!(web.endpoints.values().copied().collect::<Vec<_>>(), [more]);
}

/// Otherwise what stays would count a second time, because it counts as forgotten.
#[test]
fn counters_are_deleted_even_if_another_process_has_deleted_some() {
    deletes_the_rest(&mut counting());
    let mut node = counting();
    node.kernel().delete_as_before_linux_6_3();
    deletes_the_rest(&mut node);
}

fn deletes_the_rest(node: &mut Node) {
    node.put("web", "10.96.0.10", Protocol::Udp, &["10.244.1.3:8080"]);
    node.put("other", "10.96.0.11", Protocol::Udp, &["10.244.2.2:8080"]);
    exchange_datagrams(node, "pod-a1", VIP, 5, HEADERS);
    exchange_datagrams(node, "pod-a1", "10.96.0.11:80", 5, HEADERS);
    let pairs: Vec<_> = node.kernel().read_counts().expect("counters").pairs.into_iter().collect();
    assert_eq!(pairs.len(), 2);
    let one = "delete element ip portolan replies { 10.96.0.10 . udp . 80 . 10.244.1.3 . 8080 }";
    node.command(&["nft", one]);
    node.kernel().forget_counts(&pairs).expect("the kernel deletes the rest");
    assert_eq!(node.kernel().read_counts().expect("counters").pairs.len(), 0);
}

/// A node of a version without counters, with a connection in use: it continues, and is counted from then on.
#[test]
fn counting_begins_and_ends_without_losing_a_connection() {
    let mut node = Node::new(MODE().without_traffic_counters());
    node.put("web", "10.96.0.10", Protocol::Tcp, &["10.244.2.2:8080"]);
    node.command(&["nft", "flush chain ip portolan drop-no-local-endpoints"]);
    node.command(&["nft", "add rule ip portolan drop-no-local-endpoints drop"]);
    let connection = node.connect("pod-a1", VIP, Protocol::Tcp);
    assert_eq!(node.read().services.len(), 0);
    assert!(node.restart(MODE()).objects > 0);
    assert!(node.is_as_planned(&MODE()));
    connection.exchange(b"still here").expect("the connection lives");
    let is_counted = |sample: &TrafficSample| of(sample, "web").total.replies.packets > 0;
    let total = of(&node.read_until("it is counted", is_counted), "web").total;
    assert!(total.connections == 0 && total.requests.bytes > 60, "it began before: {total:?}");
    assert!(node.restart(MODE().without_traffic_counters()).objects > 0);
    assert!(node.is_as_planned(&MODE().without_traffic_counters()));
    connection.exchange(b"still here").expect("the connection lives");
    assert!(!node.command(&["nft", "list", "table", "ip", "portolan"]).contains("requests"));
}
