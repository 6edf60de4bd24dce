//! Open connections of Services, and what they carried, in every mode.

use std::io::{BufRead, BufReader};

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;
use portolan_testkit::Protocol;
use serde_json::Value;

use crate::carried::{check_counted, check_listed, listed, node_in};
use crate::node::{WEB, WEB_IP, web};
use crate::poll::until;

fn modes_here() -> impl Iterator<Item = &'static dyn Mode> {
    modes::ALL.iter().copied().filter(|mode| mode.missing().is_none())
}

#[test]
fn open_connections_are_listed_in_every_mode() {
    modes_here().for_each(check_listed);
}

#[test]
fn connections_are_counted_by_service_and_endpoint_in_every_mode() {
    modes_here().for_each(check_counted);
}

/// A connection that a hook has translated looks like one to the endpoint itself, so that those modes are left out.
#[test]
fn connections_to_endpoints_that_are_gone_are_found() {
    for mode in modes_here().filter(|mode| !mode.limits().at_connect) {
        let node = node_in(mode, &["10.244.1.2"]);
        let connection = node.connect("pod-a3", WEB, Protocol::Tcp);
        node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
        until("the endpoint is gone", || {
            listed(&node, &[]).iter().any(|row| row["endpoint_state"] == "gone" && row["endpoint"] == "10.244.1.2:8080")
        });
        let text = node.query(&["connections"]);
        assert!(String::from_utf8_lossy(&text.stdout).contains("1 lead to endpoints that are gone"), "{}", mode.name());
        drop(connection);
    }
}

#[test]
fn a_service_that_does_not_exist_is_an_error() {
    let node = node_in(modes::default(), &["10.244.1.2"]);
    let output = node.query(&["connections", "wbe"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("did you mean svc/default/web"), "{text}");
}

/// Until its reader ends.
#[test]
fn a_watch_prints_what_is_opened_and_closed() {
    let node = node_in(modes::default(), &["10.244.1.2"]);
    let before = node.connect("pod-a3", WEB, Protocol::Tcp);
    let mut watch = node.spawn_reading(&["connections", "web", "--watch", "--interval", "200ms", "--output", "json"]);
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["change"], "opened", "what is open already comes first");
    let connection = node.connect("pod-a3", WEB, Protocol::Tcp);
    assert_eq!(next()["change"], "opened");
    drop(connection);
    // It may be seen while it closes, which is no change.
    assert_eq!(next()["change"], "closed");
    drop((lines, before));
    until("the command ends with its reader", || matches!(watch.try_wait(), Ok(Some(_))));
}
