//! The takeover on a machine that lacks the programs for some tables.

use portolan_testkit::topology;

use crate::node::{Node, WEB_IP, web};
use crate::poll::until;

/// The kernel has legacy tables, which only the legacy programs can read. Without them the takeover ends all the same.
#[test]
fn a_takeover_ends_without_the_programs_of_legacy_iptables() {
    let mut node = Node::new();
    node.lab.host(topology::NODE).command(&["iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES"]).unwrap();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.start_after("mount -t tmpfs none /mnt && PATH=/mnt", &["--proxy-mode", "nftables"]);
    for number in 2..6 {
        node.write("web.yaml", &web(WEB_IP, &[&format!("10.244.1.{number}")]));
        node.settle_on(&[&format!("10.244.1.{number}")]);
    }
    until("the reason is logged", || node.log().contains("iptables-legacy-save"));
    let log = node.log();
    assert_eq!(log.matches("takeover: kept what cannot be read: running iptables-legacy-save").count(), 1, "{log}");
    assert!(!log.contains("retrying"), "{log}");
}
