//! Foreign rules: `explain` runs them beside ours, and real packets confirm the result.

use std::process::Output;

use portolan_testkit::Protocol;

use crate::node::{Node, WEB};

const CLIENT: &str = "10.244.1.4";

fn serving(flags: &[&str]) -> Node {
    Node::serving_web(&["10.244.1.2"], flags)
}

fn explain(node: &Node, words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = node.query(&[&["explain", CLIENT, WEB], words].concat());
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

/// The exit status, words of the output, and the result of a real packet.
fn check(node: &Node, code: i32, words: &[&str], answer: &str) {
    let (found, text) = explain(node, &[]);
    assert_eq!(found, Some(code), "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is missing in {text}"));
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), answer, "{text}");
}

fn firewall(node: &Node, chain: &str, rule: &str) {
    node.nft("add table inet fw");
    node.nft(&format!("add chain inet fw {chain} {{ type filter hook {chain} priority filter ; }}"));
    node.nft(&format!("add rule inet fw {chain} {rule}"));
}

#[test]
fn a_packet_that_a_firewall_drops_is_explained_by_its_rule() {
    let node = serving(&[]);
    check(&node, 0, &["forwarded to the only endpoint"], "pod-a1");
    firewall(&node, "forward", "ip daddr 10.244.1.0/24 tcp dport 8080 drop");
    let rule = "table inet fw, chain forward, handle";
    check(&node, 1, &[rule, ": ip daddr 10.244.1.0/24 tcp dport 8080 drop", "stopped by"], "silent");
    let (_, json) = explain(&node, &["--output", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&json).expect("an object");
    assert_eq!(answer["fate"], "stopped", "{json}");
    assert!(answer["stopped_by"].as_str().is_some_and(|by| by.starts_with(rule)), "{json}");
}

/// Before translation the packet still has the Service's address.
#[test]
fn rules_run_in_the_order_of_their_priorities() {
    let node = serving(&[]);
    node.nft("add table ip fw");
    node.nft("add chain ip fw early { type filter hook prerouting priority -150 ; }");
    node.nft("add chain ip fw late { type filter hook prerouting priority -50 ; }");
    node.nft("add rule ip fw late ip daddr 10.96.0.80 drop");
    check(&node, 0, &["10.244.1.2:8080"], "pod-a1");
    node.nft("add rule ip fw early ip daddr 10.96.0.80 counter reject");
    check(&node, 1, &["table ip fw, chain early, handle", ": ip daddr 10.96.0.80 counter reject"], "refused");
}

#[test]
fn a_firewall_that_drops_by_policy_is_explained() {
    let node = serving(&[]);
    firewall(&node, "forward", "ct state established,related accept");
    node.nft("add rule inet fw forward iifname \"lo\" accept");
    node.nft("add rule inet fw forward tcp dport { 22, 443 } accept");
    node.nft("chain inet fw forward { policy drop ; }");
    check(&node, 1, &["table inet fw, chain forward: policy drop"], "silent");
    node.nft("add rule inet fw forward tcp dport 8000-8100 accept");
    check(&node, 0, &["forwarded to the only endpoint"], "pod-a1");
}

/// The result of such a rule is unknown, and `explain` claims nothing.
#[test]
fn a_rule_that_is_not_understood_limits_the_answer() {
    let node = serving(&[]);
    firewall(&node, "forward", "meta length 1-2000 accept");
    check(&node, 0, &["forwarded to the only endpoint"], "pod-a1");
    node.nft("add rule inet fw forward tcp dport 8080 drop");
    let words = ["note: table inet fw, chain forward, handle", "not understood", "as far as Portolan's rules go"];
    check(&node, 0, &words, "pod-a1");
}

#[test]
fn a_firewall_is_seen_in_iptables_mode_as_well() {
    let node = serving(&["--proxy-mode", "iptables"]);
    check(&node, 0, &["forwarded to the only endpoint"], "pod-a1");
    firewall(&node, "forward", "ip saddr 10.244.1.4 drop");
    check(&node, 1, &["table inet fw, chain forward, handle", "ip saddr 10.244.1.4 drop"], "silent");
}

/// Foreign rules in the tables that iptables mode shares with them.
#[test]
fn a_rule_in_a_shared_table_is_explained() {
    let node = serving(&["--proxy-mode", "iptables"]);
    node.nft("insert rule ip filter FORWARD ip daddr 10.244.1.2 drop");
    check(&node, 1, &["table ip filter, chain FORWARD, handle", "ip daddr 10.244.1.2 drop"], "silent");
}
