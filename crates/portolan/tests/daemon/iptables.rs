//! iptables mode on a running node, and changes of the mode under traffic.

use std::fs;

use portolan_testkit::{Load, LongConnection, Protocol, Stream, topology};

use crate::node::{Node, WEB, WEB_IP, service, web};
use crate::poll::until;

const FLAGS: [&str; 4] = ["--proxy-mode=iptables", "--iptables-min-sync-period=0s", "--sync-period=300ms", "-v=4"];

/// Rules of others, some of which use names of kube-proxy's.
const OTHERS: &str = "*filter\n-A INPUT -p tcp -m tcp --dport 2222 -j ACCEPT\nCOMMIT\n\
    *nat\n:CNI-MARK - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n-A PREROUTING -p tcp -m tcp --dport 4444 -j CNI-MARK\n\
    -A CNI-MARK -j KUBE-MARK-MASQ\nCOMMIT\n";

fn command(node: &Node, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    node.lab.host(topology::NODE).command(&words).unwrap_or_else(|error| panic!("{error}"))
}

fn save(node: &Node) -> String {
    let text = command(node, "iptables-nft-save");
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn restore(node: &Node, text: &str) {
    let file = node.path("rules");
    fs::write(&file, text).unwrap();
    command(node, &format!("iptables-nft-restore --noflush {}", file.display()));
}

fn running(endpoints: &[&str]) -> Node {
    let mut node = Node::new();
    node.write("web.yaml", &web(WEB_IP, endpoints));
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    node.start_with(&FLAGS);
    node
}

#[test]
fn edits_are_followed_and_a_restart_writes_nothing() {
    let mut node = running(&["10.244.1.2"]);
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1"]);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2", "10.244.2.2"]));
    until("both endpoints answer", || node.answers("pod-a3", WEB) == ["pod-a1", "pod-b1"]);
    node.settle();
    let explained = node.ask(&["explain", "10.244.1.4", WEB]);
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(
        explained.status.success() && text.contains("statistic --mode random --probability 0.50000000000"),
        "{text}"
    );
    node.stop();
    let before = node.generation();
    node.start_with(&FLAGS);
    assert_eq!(node.generation(), before);
    node.remove("web.yaml");
    until("the address is nobody's", || node.answer("node-a", WEB, Protocol::Tcp) == "silent");
    assert!(!save(&node).contains("KUBE-SEP-"), "{}", save(&node));
}

#[test]
fn what_others_take_away_comes_back() {
    let node = running(&["10.244.1.2"]);
    let chain =
        save(&node).lines().find_map(|line| line.strip_prefix(":KUBE-SVC-").map(|it| it[..16].to_owned())).unwrap();
    let deeds = [
        "iptables-nft -t nat -F KUBE-SERVICES".to_owned(),
        format!("iptables-nft -t nat -F KUBE-SVC-{chain}"),
        format!("iptables-nft -t nat -I KUBE-SVC-{chain} -j ACCEPT"),
        "iptables-nft -t nat -F PREROUTING".to_owned(),
        "iptables-nft -t nat -F".to_owned(),
        "iptables-nft -t filter -F".to_owned(),
        "iptables-nft -t mangle -X KUBE-PROXY-CANARY".to_owned(),
        "iptables-nft -t nat -A KUBE-SERVICES -p udp -j RETURN".to_owned(),
    ];
    for (count, deed) in (1..).zip(&deeds) {
        command(&node, deed);
        until("the daemon has noticed", || node.log().matches(" repaired ").count() >= count);
        node.settle();
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1", "{deed}");
    }
}

#[test]
fn rules_of_others_stay_and_ours_can_be_removed() {
    let mut node = Node::new();
    restore(&node, OTHERS);
    let before = save(&node);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.start_with(&FLAGS);
    node.stop();
    let with_ours = save(&node);
    let foreign: Vec<&str> = before.lines().filter(|line| line.starts_with("-A")).collect();
    assert!(foreign.iter().all(|line| with_ours.contains(line)), "{with_ours}");
    let waiting = node.plainly(&["cleanup", "--after-kube-proxy"]);
    let reason = String::from_utf8_lossy(&waiting.stderr);
    assert!(!waiting.status.success() && reason.contains("Nothing was removed"), "{waiting:?}");
    assert_eq!(save(&node), with_ours);
    let cleanup = node.plainly(&["cleanup"]);
    assert!(cleanup.status.success(), "{cleanup:?}");
    let after = save(&node);
    assert!(foreign.iter().all(|line| after.contains(line)), "{after}");
    for gone in ["KUBE-SVC-", "KUBE-SEP-", "KUBE-CLUSTER-IPS", "-A PREROUTING -m comment"] {
        assert!(!after.contains(gone), "{after}");
    }
}

/// From a pod, from an endpoint, from the node and from outside: new connections all the time, and old ones that stay.
struct Traffic {
    load: Load,
    lasting: Vec<LongConnection>,
}

const NODE_PORT: &str = "192.168.50.1:30080";
const NEW_PER_SECOND: u32 = 500;

impl Traffic {
    fn start(node: &Node) -> Self {
        let stream = |from, to: &str| Stream { from, to: to.parse().unwrap() };
        let streams =
            [stream("pod-a3", WEB), stream("pod-a1", WEB), stream("node-a", WEB), stream("client", NODE_PORT)];
        let lasting = (0..20).map(|_| node.connect("pod-a3", WEB, Protocol::Tcp));
        let lasting = lasting.chain((0..20).map(|_| node.connect("client", NODE_PORT, Protocol::Tcp))).collect();
        Self { load: node.lab.load(&streams, NEW_PER_SECOND), lasting }
    }

    fn go_on(&self) {
        let before = self.load.opened();
        until("traffic goes on", || self.load.opened() > before + 600);
        for connection in &self.lasting {
            assert_eq!(connection.exchange(b"hello").unwrap(), b"hello");
        }
    }
}

#[test]
fn changing_the_mode_fails_no_connection() {
    let mut node = Node::new();
    let spec = service("web", WEB_IP, "type: NodePort", &["10.244.1.2", "10.244.2.2"]);
    node.write("web.yaml", &spec.replace("{port: 80,", "{port: 80, nodePort: 30080,"));
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    write_mode(&node, "nftables");
    let file = node.path("config.conf").display().to_string();
    node.start_with(&["--config", &file]);
    let traffic = Traffic::start(&node);
    traffic.go_on();
    for mode in ["iptables", "nftables", "iptables", "nftables"] {
        write_mode(&node, mode);
        until("the old mode's rules are gone", || match mode {
            "iptables" => !node.nft("list tables").contains("portolan") && save(&node).contains("KUBE-SEP-"),
            _ => node.nft("list tables").contains("ip portolan") && !save(&node).contains("KUBE-SEP-"),
        });
        node.settle();
        assert!(node.get("127.0.0.1:10249", "/proxyMode").ends_with(mode));
        assert!(node.get("127.0.0.1:10249", "/metrics").starts_with("HTTP/1.1 200"));
        traffic.go_on();
    }
    let outcome = traffic.load.stop();
    assert_eq!(outcome.failures, Vec::<String>::new(), "of {} connections", outcome.connections);
}

fn write_mode(node: &Node, mode: &str) {
    let text = format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: {mode}\n\
         hostnameOverride: node-a\nclusterCIDR: 10.244.0.0/16\nnodePortAddresses: [192.168.50.0/24]\n"
    );
    fs::write(node.path("config.draft"), text).unwrap();
    fs::rename(node.path("config.draft"), node.path("config.conf")).unwrap();
}
