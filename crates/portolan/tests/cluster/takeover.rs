//! From kube-proxy to Portolan and back, under live traffic: nothing fails.

use portolan_testkit::{Load, LongConnection, Stream, topology};
use rustix::process::Signal;
use serde_json::json;

use crate::cluster::{Cluster, address};
use crate::objects::{WEB, WEB_IP, service, slice};
use crate::poll::until;
use crate::portolan::text;

const NEW_PER_SECOND: u32 = 1_200;
const LASTING: usize = 200;
/// Connections that are opened before and after each change.
const CONNECTIONS_BETWEEN: u64 = 1_500;
const NODE_PORT: &str = "192.168.50.1:30080";

/// A Service that is reached by its ClusterIP and by a node port, with endpoints on both nodes.
fn cluster_with_node_port() -> Cluster {
    let cluster = Cluster::start();
    let mut web = service("web", WEB_IP);
    web["spec"]["type"] = json!("NodePort");
    web["spec"]["ports"][0]["nodePort"] = json!(30080);
    cluster.create(&web);
    cluster.create(&slice("web", &["10.244.1.2", "10.244.1.3", "10.244.2.2", "10.244.2.3"]));
    cluster
}

/// From a pod, from one that is an endpoint as well, from the node itself, and from outside.
fn streams() -> [Stream; 4] {
    let (cluster_ip, node_port) = (address(WEB), address(NODE_PORT));
    [
        Stream { from: "pod-a3", to: cluster_ip },
        Stream { from: "pod-a2", to: cluster_ip },
        Stream { from: "node-a", to: cluster_ip },
        Stream { from: "client", to: node_port },
    ]
}

struct Traffic {
    load: Load,
    lasting: Vec<LongConnection>,
}

impl Traffic {
    fn start(cluster: &Cluster) -> Self {
        let half = |from: &'static str, to: &'static str| (0..LASTING / 2).map(move |_| (from, to));
        let ends = half("pod-a3", WEB).chain(half("client", NODE_PORT));
        let lasting = ends.map(|(from, to)| cluster.connect(from, to)).collect();
        Self { load: cluster.lab.load(&streams(), NEW_PER_SECOND), lasting }
    }

    /// More new connections, and an exchange on each of the old ones.
    fn continue_all(&self) {
        let before = self.load.opened();
        until("traffic continues", || self.load.opened() > before + CONNECTIONS_BETWEEN);
        for connection in &self.lasting {
            assert_eq!(connection.exchange(b"hello").unwrap(), b"hello");
        }
    }

    fn assert_unharmed(self, what: &str) {
        self.continue_all();
        let tally = self.load.stop();
        println!(
            "{what}: {} connections at {:.0}/s, {} failed, the slowest took {:?}; {LASTING} lasting ones unharmed",
            tally.connections,
            tally.per_second,
            tally.failures.len(),
            tally.slowest
        );
        assert!(tally.failures.is_empty(), "such as {}", tally.failures[0]);
    }
}

/// kube-proxy's rules on the node, by their names.
fn rules_of_kube_proxy(cluster: &Cluster) -> usize {
    let node = cluster.lab.host(topology::NODE);
    let tables = node.command(&["nft", "list", "tables"]).unwrap();
    let rules = ["iptables-save", "ip6tables-save"].map(|tool| node.command(&[tool]).unwrap());
    tables.matches("kube-proxy").count() + rules.iter().map(|it| it.matches("KUBE-SVC").count()).sum::<usize>()
}

fn rules_of_portolan(cluster: &Cluster) -> bool {
    cluster.lab.host(topology::NODE).command(&["nft", "list", "tables"]).unwrap().contains("portolan")
}

fn there_and_back(mode: &str) {
    let cluster = cluster_with_node_port();
    let kube_proxy = cluster.start_kube_proxy(mode);
    cluster.until_answer("pod-a3", WEB, "pod-a1");
    cluster.until_answer("client", NODE_PORT, "pod-b1");
    let traffic = Traffic::start(&cluster);
    traffic.continue_all();

    kube_proxy.end(Signal::KILL);
    assert!(rules_of_kube_proxy(&cluster) > 0, "kube-proxy leaves its rules behind when it is killed");
    let portolan = cluster.start_portolan();
    until("the rules of kube-proxy are gone", || rules_of_kube_proxy(&cluster) == 0);
    traffic.continue_all();

    portolan.end(Signal::TERM);
    traffic.continue_all();
    let _kube_proxy = cluster.start_kube_proxy(mode);
    let mut cleanup = std::process::Command::new(env!("CARGO_BIN_EXE_portolan"));
    cleanup.args(["cleanup", "--after-kube-proxy"]);
    let output = cluster.run(cleanup);
    assert!(output.status.success(), "{}", text(&output));
    assert!(!rules_of_portolan(&cluster) && rules_of_kube_proxy(&cluster) > 0);
    traffic.assert_unharmed(&format!("kube-proxy {mode} to Portolan and back"));
}

#[test]
fn from_nftables_mode_and_back() {
    there_and_back("nftables");
}

#[test]
fn from_iptables_mode_and_back() {
    there_and_back("iptables");
}
