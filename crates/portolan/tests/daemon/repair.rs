//! Foreign changes to our tables.

use std::time::{Duration, Instant};

use crate::life::some_chain;
use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;
use portolan_testkit::Protocol;

const REPAIRED_WITHIN: Duration = Duration::from_secs(1);

#[test]
fn changes_by_others_are_undone_within_a_second() {
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    let chain = some_chain(&node);
    let changes = [
        "delete table ip portolan".to_owned(),
        "delete table ip6 portolan".to_owned(),
        format!("flush chain ip portolan {chain}"),
        format!("add rule ip portolan {chain} drop"),
        "add element ip portolan cluster-ips { 10.96.9.9 }".to_owned(),
        format!("delete element ip portolan cluster-ips {{ {WEB_IP} }}"),
        "flush map ip portolan endpoints".to_owned(),
        "add chain ip portolan intruder".to_owned(),
    ];
    for (count, change) in (1..).zip(&changes) {
        node.nft(change);
        let start = Instant::now();
        until("the daemon has noticed", || node.log().matches(" repaired ").count() >= count);
        node.settle();
        let elapsed = start.elapsed();
        assert!(elapsed < REPAIRED_WITHIN, "nft {change}: repaired only after {elapsed:?}");
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1", "nft {change}");
    }
}

#[test]
fn foreign_objects_are_left_alone() {
    let node = Node::new();
    node.nft("add table ip foreign");
    node.nft("add chain ip foreign portolan");
    node.nft("add table inet portolan-too");
    let before = node.nft("list ruleset");
    let mut node = node;
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.start();
    node.stop();
    let cleanup = node.plainly(&["cleanup"]);
    assert!(cleanup.status.success());
    assert_eq!(String::from_utf8_lossy(&cleanup.stdout), "removed table ip portolan\nremoved table ip6 portolan\n");
    assert_eq!(node.nft("list ruleset"), before);
    let again = node.plainly(&["cleanup"]);
    assert!(again.status.success() && String::from_utf8_lossy(&again.stdout).contains("nothing"));
}
