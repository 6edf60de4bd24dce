//! kube-proxy's flags, configuration file and HTTP pages, on a running node.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use portolan_testkit::{Protocol, topology};

use crate::node::{Node, WEB_IP, service, web};
use crate::poll::until;

const HEALTH: &str = "127.0.0.1:10256";
const METRICS: &str = "127.0.0.1:10249";

fn node_port_service() -> String {
    service("web", WEB_IP, "type: NodePort", &["10.244.2.2"]).replace("{port: 80,", "{port: 80, nodePort: 30080,")
}

fn write_config(node: &Node, text: &str) {
    let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    let draft = node.path("config.draft");
    fs::write(&draft, format!("{head}hostnameOverride: node-a\nclusterCIDR: 10.244.0.0/16\n{text}")).unwrap();
    fs::rename(draft, node.path("config.conf")).unwrap();
}

fn node_port_answer(node: &Node, address: &str) -> String {
    node.answer("client", &format!("{address}:30080"), Protocol::Tcp)
}

#[test]
fn a_changed_file_is_used_without_a_restart_and_a_broken_one_is_not() {
    let mut node = Node::new();
    node.write("web.yaml", &node_port_service());
    node.serve(&["10.244.2.2:8080"], Protocol::Tcp);
    write_config(&node, "mode: nftables\nnodePortAddresses: [192.168.50.0/24]\n");
    let file = node.path("config.conf").display().to_string();
    node.start_with(&["--config", &file]);
    assert_eq!(node_port_answer(&node, "192.168.50.1"), "pod-b1");
    assert_eq!(node_port_answer(&node, "203.0.113.1"), "refused");

    write_config(&node, "mode: nftables\nnodePortAddresses: [203.0.113.0/24]\nmetricsBindAddress: 127.0.0.1:20249\n");
    until("the node port has moved", || node_port_answer(&node, "203.0.113.1") == "pod-b1");
    assert_eq!(node_port_answer(&node, "192.168.50.1"), "refused");
    assert!(node.get("127.0.0.1:20249", "/configz").contains("203.0.113.0/24"));

    write_config(&node, "mode: nftables\nnodePortAddresses: [nonsense]\noomScoreAdj: 5000\n");
    until("the mistake is logged", || node.log().contains("nonsense"));
    assert!(node.log().contains("5000"), "all mistakes are logged together");
    assert_eq!(node_port_answer(&node, "203.0.113.1"), "pod-b1");
    assert!(node.get("127.0.0.1:20249", "/metrics").contains("result=\"failure\"} 1"));
    assert!(node.is_running());
}

/// Clusters with kube-proxy in iptables mode may rely on this, for example to pull images from a registry in the
/// cluster.
#[test]
fn node_ports_answer_at_loopback_where_kube_proxy_would_have() {
    let mut node = Node::new();
    node.write("web.yaml", &node_port_service());
    node.serve(&["10.244.2.2:8080"], Protocol::Tcp);
    node.start_with(&["--proxy-mode", "iptables"]);
    assert_eq!(node.answer("node-a", "127.0.0.1:30080", Protocol::Tcp), "pod-b1");
    assert_eq!(node_port_answer(&node, "203.0.113.1"), "pod-b1");
    let guard = |node: &Node| {
        let words = ["iptables-nft-save", "-t", "filter"];
        node.lab.host(topology::NODE).command(&words).unwrap().contains("block incoming localnet connections")
    };
    assert!(guard(&node));
    node.stop();
    node.start_with(&["--proxy-mode", "iptables", "--iptables-localhost-nodeports=false"]);
    assert_eq!(node.answer("node-a", "127.0.0.1:30080", Protocol::Tcp), "refused");
    assert!(!guard(&node));
}

#[test]
fn health_and_metrics_are_where_those_of_kube_proxy_are() {
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    assert!(node.get(HEALTH, "/healthz").starts_with("HTTP/1.1 200"), "{}", node.get(HEALTH, "/healthz"));
    assert!(node.get(HEALTH, "/livez").starts_with("HTTP/1.1 200"));
    assert!(node.get(METRICS, "/proxyMode").ends_with("nftables"));
    (0..7).for_each(|_| assert_eq!(node.answer("pod-a3", "10.96.0.80:80", Protocol::Tcp), "pod-a1"));
    until("the connections are counted", || counts_connections(&node, 7));
    let metrics = node.get(METRICS, "/metrics");
    assert!(metrics.contains("kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}"), "{metrics}");
}

fn counts_connections(node: &Node, count: usize) -> bool {
    let metrics = node.get(METRICS, "/metrics");
    let mut lines = metrics.lines().filter(|line| line.starts_with("portolan_service_connections_total{"));
    lines.any(|line| line.contains("service=\"web\"") && line.ends_with(&format!(" {count}")))
}

/// A load balancer checks at this port whether the node has local endpoints.
#[test]
fn health_check_ports_show_which_nodes_have_endpoints() {
    let spec = "type: LoadBalancer\n  externalTrafficPolicy: Local\n  healthCheckNodePort: 32100";
    let with = |endpoint: &str| {
        let text = service("web", WEB_IP, spec, &[endpoint]);
        text.replace(&format!("- addresses: [{endpoint}]"), &format!("- {{addresses: [{endpoint}], nodeName: node-a}}"))
    };
    let node = Node::running(&[("web.yaml", &with("10.244.1.2"))]);
    let answer = || node.get("192.168.50.1:32100", "/");
    until("the port reports one endpoint", || answer().starts_with("HTTP/1.1 200"));
    assert!(answer().contains("\"localEndpoints\": 1"), "{}", answer());
    node.write("web.yaml", &with("10.244.1.2").replace("nodeName: node-a", "nodeName: node-b"));
    until("the port reports no endpoint", || answer().starts_with("HTTP/1.1 503"));
    node.remove("web.yaml");
    until("the port is closed", || answer().contains("refused"));
}

#[test]
fn under_the_name_of_kube_proxy_it_is_kube_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("kube-proxy");
    symlink(env!("CARGO_BIN_EXE_portolan"), &link).unwrap();
    let run = |arguments: &[&str]| Command::new(&link).args(arguments).output().unwrap();
    let version = run(&["--version"]);
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("Kubernetes v1."), "{version:?}");
    let file = folder.path().join("effective.yaml").display().to_string();
    assert!(run(&["--proxy-mode=iptables", "--write_config_to", &file]).status.success());
    assert!(fs::read_to_string(&file).unwrap().contains("mode: iptables"));
    assert_eq!(run(&["--no-such-flag"]).status.code(), Some(1));
}
