//! A UDP Service with three endpoints that answer, as resolvers use it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_testkit::{Outcome, Protocol, Source};

use crate::node::{Node, service};

pub(crate) const CLIENT: &str = "pod-a1";
const CLIENT_ADDRESS: &str = "10.244.1.2";
pub(crate) const CLUSTER_IP: &str = "10.96.0.10";
const NODE_PORT: &str = "192.168.50.1:30053";
const PORT: u16 = 8053;
pub(crate) const ENDPOINTS: [(&str, &str); 3] =
    [("pod-a2", "10.244.1.3"), ("pod-b1", "10.244.2.2"), ("pod-b2", "10.244.2.3")];
const HOOKED_WITHIN: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A node in that mode, with the Service.
pub(crate) fn start(mode: &str) -> Node {
    let node = Node::start(mode, &[("dns", manifest(None))]);
    for (_, address) in ENDPOINTS {
        let address = SocketAddr::new(address.parse().expect("an address"), PORT);
        node.lab.serve(address, Protocol::Udp).expect("the pod serves");
    }
    node
}

/// The Service, without one of its endpoints.
pub(crate) fn manifest(without: Option<&str>) -> String {
    let left = ENDPOINTS.iter().filter(|(name, _)| Some(*name) != without);
    let addresses: Vec<&str> = left.map(|(_, address)| *address).collect();
    service("kube-dns", CLUSTER_IP, "port: 53, nodePort: 30053", ("UDP", PORT), &addresses)
}

/// Connected sockets of a pod are translated soon after the daemon has entered its network namespace. The rules masquerade a pod
/// that uses a node port, and hooks do not.
pub(crate) fn wait_for_hook(node: &Node) -> Result<(), String> {
    let to: SocketAddr = NODE_PORT.parse().expect("an address");
    let source = Source::parse(CLIENT, to.ip()).expect("a host of the lab");
    let seen = || match node.lab.probe(&source, to, Protocol::Udp, ANSWER_WITHIN) {
        Outcome::Answered { seen_source, .. } => seen_source.to_string(),
        other => format!("{other:?}"),
    };
    let begin = Instant::now();
    while seen() != CLIENT_ADDRESS {
        if begin.elapsed() > HOOKED_WITHIN {
            return Err(format!("no hook translates connected sockets of UDP: the endpoint sees {}", seen()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
