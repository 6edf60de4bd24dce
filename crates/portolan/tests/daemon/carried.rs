//! The connections of a mode: listed one by one, and counted.

use portolan_dataplane::mode::Mode;
use portolan_testkit::Protocol;
use serde_json::Value;

use crate::node::{Node, WEB};
use crate::poll::until;

const ENDPOINTS: [&str; 2] = ["10.244.1.2", "10.244.2.2"];

pub(crate) fn node_in(mode: &dyn Mode, endpoints: &[&str]) -> Node {
    Node::serving_web(endpoints, &[&format!("--proxy-mode={}", mode.name()), "--metrics-bind-address=127.0.0.1:10249"])
}

pub(crate) fn listed(node: &Node, arguments: &[&str]) -> Vec<Value> {
    let output = node.query(&[&["connections", "--output", "json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    answer["connections"].as_array().expect("a list").clone()
}

/// The value of a series of the Service, with these words in it.
fn metric(node: &Node, name: &str, words: &[&str]) -> f64 {
    let page = node.get("127.0.0.1:10249", "/metrics");
    let lines = page.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains("service=\"web\""));
    let meant = lines.filter(|line| words.iter().all(|word| line.contains(word)));
    meant.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

pub(crate) fn check_listed(mode: &dyn Mode) {
    let node = node_in(mode, &ENDPOINTS);
    let connections = [(); 3].map(|()| node.connect("pod-a3", WEB, Protocol::Tcp));
    connections.iter().for_each(|connection| drop(connection.exchange(b"hello").expect("it answers")));
    let name = mode.name();
    let open = |arguments: &[&str]| {
        let rows = listed(&node, arguments);
        rows.into_iter().filter(|row| row["state"] == "open").collect::<Vec<_>>()
    };
    until("all are listed", || open(&["default/web"]).len() == 3);
    for row in open(&[]) {
        assert_eq!(row["services"], serde_json::json!(["default/web"]), "{name}: {row}");
        assert_eq!((&row["protocol"], &row["endpoint_state"]), (&"tcp".into(), &"in the pool".into()), "{name}: {row}");
        assert!(row["client"].as_str().expect("a client").starts_with("10.244.1.4:"), "{name}: {row}");
        let endpoint = row["endpoint"].as_str().expect("an endpoint");
        assert!(ENDPOINTS.iter().any(|address| endpoint == format!("{address}:8080")), "{name}: {row}");
    }
    let text = node.query(&["connections", "web"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.starts_with("SERVICE") && text.contains("3 connections"), "{name}: {text}");
    check_explained(&node, &open(&[])[0], name);
    drop(connections);
    until("those that have ended are not listed", || open(&[]).is_empty());
}

/// The question about one of them.
fn check_explained(node: &Node, row: &Value, mode: &str) {
    let client = row["client"].as_str().expect("a client");
    let words = ["explain", "--connection", client, row["frontend"].as_str().unwrap_or(WEB), "--output", "json"];
    let output = node.query(&words);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(output.status.code(), Some(0), "{mode}: {answer}");
    assert_eq!(answer["connection"]["endpoint"], row["endpoint"], "{mode}: {answer}");
    let output = node.query(&["explain", "--connection", "10.244.1.4:1", WEB]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("not tracked here"), "{mode}: {text}");
    assert!(text.contains("a new connection of this client: forwarded to one of 2 endpoints"), "{mode}: {text}");
}

pub(crate) fn check_counted(mode: &dyn Mode) {
    let node = node_in(mode, &ENDPOINTS);
    // The numbers before the first connection.
    metric(&node, "portolan_service_connections_total", &[]);
    for _ in 0..20 {
        node.answer("pod-a3", WEB, Protocol::Tcp);
    }
    let connections = || metric(&node, "portolan_service_connections_total", &[]);
    until("all are counted", || connections() >= 20.0);
    assert_eq!(connections(), 20.0, "{}", mode.name());
    let of = |endpoint: &str| metric(&node, "portolan_endpoint_connections_total", &[endpoint]);
    let [one, other] = ENDPOINTS.map(|address| of(&format!("endpoint=\"{address}:8080\"")));
    assert_eq!(one + other, 20.0, "{}", mode.name());
    assert!(one > 0.0 && other > 0.0, "{}: {one} {other}", mode.name());
}
