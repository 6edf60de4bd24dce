//! The daemon: it programs, follows, survives, and cleans up.

use super::machine::{Machine, OBJECTS};

const SERVED: [&str; 2] =
    ["10.96.0.10:80 -> 10.244.1.2 10.244.2.2 10.244.2.3", "*:30080 -> 10.244.1.2 10.244.2.2 10.244.2.3"];
const CHANGED: [&str; 2] = ["10.96.0.10:80 -> 10.244.1.2 10.244.2.2", "*:30080 -> 10.244.1.2 10.244.2.2"];

fn without_the_last_endpoint() -> String {
    OBJECTS.replace("- {addresses: [10.244.2.3], nodeName: node-b}\n", "")
}

fn changes(calls: &[String]) -> Vec<&String> {
    calls.iter().filter(|call| ["Create", "Modify", "Delete"].iter().any(|it| call.contains(it))).collect()
}

#[test]
fn services_are_programmed_followed_and_cleaned_up() {
    let machine = Machine::new();
    let daemon = machine.start();
    machine.until(&SERVED);
    assert_eq!(machine.remote_endpoints(), 2);
    let answer = || machine.ask_daemon(&["verify"]);
    machine.until_so(|| answer().status.success(), || format!("{:?}", answer()));
    let services = machine.ask_daemon(&["services"]);
    assert!(String::from_utf8_lossy(&services.stdout).contains("default/web"), "{services:?}");
    machine.write_objects(&without_the_last_endpoint());
    machine.until(&CHANGED);
    machine.until_so(|| machine.remote_endpoints() == 1, || machine.state().to_string());
    drop(daemon);
    let removed = machine.run(&["cleanup"]);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(machine.balancers().len(), 0);
    let state = machine.state();
    assert_eq!(state["endpoints"].as_array().map(Vec::len), Some(1), "the pod's endpoint stays: {state}");
}

#[test]
fn ctrl_c_ends_the_daemon_and_leaves_services_in_force() {
    let machine = Machine::new();
    let daemon = machine.start();
    machine.until_so(|| machine.log().contains("ready: "), || machine.log());
    let status = daemon.interrupt();
    assert!(status.success(), "{status}: {}", machine.log());
    machine.until(&SERVED);
}

#[test]
fn a_restart_changes_nothing() {
    let machine = Machine::new();
    let until_ready = |times| {
        let count = || machine.log().matches("ready: ").count();
        machine.until_so(|| count() == times, || format!("ready {} times instead of {times}", count()));
    };
    let first = machine.start();
    until_ready(1);
    assert_eq!(machine.balancers().len(), SERVED.len());
    drop(first);
    machine.take_calls();
    let _second = machine.start();
    until_ready(2);
    let calls = machine.take_calls();
    assert!(!calls.is_empty() && changes(&calls).is_empty(), "{calls:?}");
}

#[test]
fn calls_may_fail() {
    let machine = Machine::new();
    machine.with("fails_one_in", 10);
    let mut daemon = machine.start();
    // Opening the mode may fail, too: then the node starts the process again.
    machine.until_so(
        || machine.balancers().len() == 2 && machine.log().contains("ready: ") || machine.log().contains("portolan: "),
        || machine.log(),
    );
    if daemon.has_ended() {
        daemon = machine.start();
    }
    machine.until(&SERVED);
    machine.write_objects(&without_the_last_endpoint());
    machine.until(&CHANGED);
    machine.until_so(|| machine.remote_endpoints() == 1, || machine.state().to_string());
    drop(daemon);
}

#[test]
fn death_between_two_calls_leaves_nothing_behind() {
    for calls in [12, 15, 17, 20] {
        let machine = Machine::new();
        machine.with("dies_after", calls);
        let mut daemon = machine.start();
        machine.until_so(|| machine.state()["dies_after"] == 0, || format!("it is alive after {calls} calls"));
        drop(daemon);
        daemon = machine.start();
        machine.until(&SERVED);
        machine.until_so(|| machine.remote_endpoints() == 2, || machine.state().to_string());
        drop(daemon);
    }
}
