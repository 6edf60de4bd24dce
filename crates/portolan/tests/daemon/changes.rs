//! Changes of the mode under traffic.

use std::fs;

use crate::iptables::save;
use crate::node::Node;
use crate::poll::until;
use crate::traffic::{Traffic, node_with_service};

/// How the rules of a mode show.
fn has_rules(node: &Node, mode: &str) -> bool {
    match mode {
        "nftables" => node.nft("list tables").contains("ip portolan"),
        "iptables" => save(node).contains(":KUBE-SEP-"),
        _ => save(node).contains(":KUBE-PORTALS-CONTAINER"),
    }
}

const MODES: [&str; 3] = ["nftables", "iptables", "userspace"];
/// From each mode to each other one.
const CHANGES: [&str; 7] = ["nftables", "iptables", "userspace", "nftables", "userspace", "iptables", "nftables"];

#[test]
fn changing_the_mode_fails_no_connection() {
    let mut node = node_with_service();
    write_mode(&node, CHANGES[0]);
    let file = node.path("config.conf").display().to_string();
    node.start_with(&["--config", &file]);
    let traffic = Traffic::start(&node);
    traffic.go_on();
    for mode in &CHANGES[1..] {
        write_mode(&node, mode);
        until("the new mode's rules are there, and no others", || {
            MODES.iter().all(|it| has_rules(&node, it) == (it == mode))
        });
        node.settle();
        assert!(node.get("127.0.0.1:10249", "/proxyMode").ends_with(mode));
        assert!(node.get("127.0.0.1:10249", "/metrics").starts_with("HTTP/1.1 200"));
        traffic.go_on();
    }
    traffic.stop_without_failures();
}

fn write_mode(node: &Node, mode: &str) {
    let text = format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: {mode}\n\
         hostnameOverride: node-a\nclusterCIDR: 10.244.0.0/16\nnodePortAddresses: [192.168.50.0/24]\n"
    );
    fs::write(node.path("config.draft"), text).unwrap();
    fs::rename(node.path("config.draft"), node.path("config.conf")).unwrap();
}
