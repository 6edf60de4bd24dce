//! `portolan changes`: what changed, why, and who did it.

use serde_json::Value;

use crate::node::{Node, WEB_IP, web};
use crate::poll::until;

fn changes(node: &Node) -> Vec<Value> {
    let output = node.query(&["changes", "--output", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["changes"].as_array().unwrap().clone()
}

fn find(node: &Node, is_meant: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    until("the change is listed", || {
        found = changes(node).into_iter().find(|change| is_meant(change));
        found.is_some()
    });
    found.unwrap()
}

fn has_cause(change: &Value, kind: &str, text: &str) -> bool {
    let causes = change["causes"].as_array().unwrap();
    causes.iter().any(|cause| cause["kind"] == kind && cause["what"].as_str().unwrap().contains(text))
}

#[test]
fn a_change_has_its_cause_its_effect_and_its_latency() {
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    assert_eq!(changes(&node)[0]["kind"], "start");
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2", "10.244.2.2"]));
    let change = find(&node, |change| has_cause(change, "EndpointSlice", "10.244.2.2"));
    assert_eq!((&change["kind"], &change["services"][0]), (&"change".into(), &"default/web".into()));
    assert!(change["latency_ms"].as_f64().unwrap() > 0.0 && change["objects"].as_u64().unwrap() > 0, "{change}");
    let behaviour = &change["behaviour"][0];
    assert!(!behaviour["before"].as_str().unwrap().contains("10.244.2.2"), "{behaviour}");
    assert!(behaviour["after"].as_str().unwrap().contains("10.244.2.2"), "{behaviour}");
    std::fs::remove_file(node.path("manifests/web.yaml")).unwrap();
    let gone = find(&node, |change| has_cause(change, "Service", "was deleted"));
    assert_eq!(gone["behaviour"][0]["after"], Value::Null);
    let text = node.query(&["changes", "web"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("LATENCY") && text.contains("Service default/web was deleted"), "{text}");
    let other = node.query(&["changes", "another"]);
    assert_eq!(String::from_utf8_lossy(&other.stdout), "no changes\n");
}

/// Syncs without a change leave nothing behind.
#[test]
fn drift_has_the_process_that_did_it() {
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    // A comparison that is due at that moment may find a change before its notification.
    let repairs = (1..6).map(|number| repair(&node, number));
    let repairs: Vec<Value> = take_until(repairs, |repair| repair["drift"]["process"].is_string());
    let drift = &repairs.last().unwrap()["drift"];
    assert!(drift["what"].as_str().unwrap().contains("cluster-ips"), "{drift}");
    assert!(drift["process"].as_str().unwrap().starts_with("nft (pid "), "{drift}");
    assert!(drift["repaired"].as_u64().unwrap() >= 1, "{drift}");
    node.settle();
    assert_eq!(changes(&node).len(), 1 + repairs.len(), "{:?}", changes(&node));
}

/// Deletes an element, and waits for the repair of that number.
fn repair(node: &Node, number: usize) -> Value {
    node.settle();
    node.nft(&format!("delete element ip portolan cluster-ips {{ {WEB_IP} }}"));
    let mut repairs = Vec::new();
    until("the repair is listed", || {
        repairs = changes(node).into_iter().filter(|change| change["kind"] == "repair").collect();
        repairs.len() >= number
    });
    repairs.swap_remove(number - 1)
}

fn take_until(values: impl Iterator<Item = Value>, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut taken = Vec::new();
    for value in values {
        taken.push(value);
        if taken.last().is_some_and(&is_last) {
            break;
        }
    }
    taken
}
