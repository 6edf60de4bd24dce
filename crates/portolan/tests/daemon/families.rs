//! A node that lacks IPv6 serves IPv4.

use crate::node::{Node, WEB, WEB_IP, service};
use portolan_testkit::Protocol;

const ENDPOINTS: [&str; 2] = ["10.244.1.2", "10.244.2.2"];

fn node() -> Node {
    let node = Node::new();
    let dual_stack = "ipFamilyPolicy: PreferDualStack\n  type: NodePort";
    node.write("web.yaml", &service("web", WEB_IP, dual_stack, &ENDPOINTS));
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    node
}

/// Serves IPv4, follows a change without an error, and says once that IPv6 is left out.
fn serves_ipv4(node: &Node) {
    assert_eq!(node.answers("client", WEB), ["pod-a1", "pod-b1"]);
    node.write("web.yaml", &service("web", WEB_IP, "type: NodePort", &ENDPOINTS[..1]));
    crate::poll::until("the change is in force", || node.answers("client", WEB) == ["pod-a1"]);
    let log = node.log();
    assert_eq!(log.matches("IPv6 is left out: ").count(), 1, "{log}");
    assert!(!log.contains("retrying"), "{log}");
}

/// As with the kernel's option `ipv6.disable=1`.
#[test]
fn a_kernel_without_ipv6_serves_ipv4() {
    for mode in ["nftables", "iptables", "userspace"] {
        let mut node = node();
        node.start_after("mount -t tmpfs none /proc/sys/net/ipv6", &["--proxy-mode", mode]);
        serves_ipv4(&node);
    }
}

#[test]
fn a_node_without_ip6tables_serves_ipv4() {
    let mut node = node();
    let only_ipv4 = "mount -t tmpfs none /mnt && ln -s /usr/sbin/iptables* /mnt && PATH=/mnt";
    node.start_after(only_ipv4, &["--proxy-mode", "iptables"]);
    serves_ipv4(&node);
}
