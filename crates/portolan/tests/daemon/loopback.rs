//! `route_localnet` is set only while the rules that make it safe are in place.

use portolan_testkit::topology;

use crate::node::{Node, WEB_IP, service};
use crate::poll::until;

fn route_localnet(node: &Node) -> String {
    let words = ["cat", "/proc/sys/net/ipv4/conf/all/route_localnet"];
    node.lab.host(topology::NODE).command(&words).unwrap().trim().to_owned()
}

fn write_config(node: &Node, text: &str) -> String {
    let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    std::fs::write(node.path("draft"), format!("{head}hostnameOverride: node-a\n{text}")).unwrap();
    std::fs::rename(node.path("draft"), node.path("config.conf")).unwrap();
    node.path("config.conf").display().to_string()
}

fn node() -> Node {
    let node = Node::new();
    node.write("web.yaml", &service("web", WEB_IP, "type: NodePort", &["10.244.1.2"]));
    node
}

const ON: &str = "mode: iptables\niptables: {localhostNodePorts: true}\n";

#[test]
fn a_live_change_and_a_change_of_the_mode_set_it_back() {
    for off in ["mode: iptables\niptables: {localhostNodePorts: false}\n", "mode: nftables\n"] {
        let mut node = node();
        let config = write_config(&node, ON);
        node.start_with(&["--config", &config]);
        until("127.0.0.1 serves", || route_localnet(&node) == "1");
        // A second process does not take it for the value that was there before.
        node.kill();
        node.start_with(&["--config", &config]);
        write_config(&node, off);
        until("it is set back", || route_localnet(&node) == "0");
    }
}

#[test]
fn cleanup_sets_it_back() {
    let mut node = node();
    let config = write_config(&node, ON);
    node.start_with(&["--config", &config]);
    until("127.0.0.1 serves", || route_localnet(&node) == "1");
    node.stop();
    assert_eq!(route_localnet(&node), "1", "the rules stay, too");
    let output = node.query(&["cleanup"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(route_localnet(&node), "0");
}

/// The record is beside the control socket, and a pod loses it with its volume. What set the value is not known then.
#[test]
fn cleanup_without_the_record_says_what_stays() {
    let mut node = node();
    let config = write_config(&node, ON);
    node.start_with(&["--config", &config]);
    until("127.0.0.1 serves", || route_localnet(&node) == "1");
    node.stop();
    std::fs::remove_file(node.path("route_localnet")).unwrap();
    let output = node.query(&["cleanup"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("net.ipv4.conf.all.route_localnet=1"), "{text}");
    assert!(text.contains("set it to 0 unless another program needs it"), "{text}");
    assert_eq!(route_localnet(&node), "1");
}

/// Without node ports at 127.0.0.1 there is no rule that would make it safe.
#[test]
fn it_is_not_set_where_node_ports_are_elsewhere() {
    let mut node = node();
    let config = write_config(&node, &format!("{ON}nodePortAddresses: [192.168.50.0/24]\n"));
    node.start_with(&["--config", &config]);
    assert_eq!(route_localnet(&node), "0");
}
