//! What another program of the node does first.

use serde_json::json;

use super::machine::Machine;
use super::process::finish;

const SERVED: [&str; 2] =
    ["10.96.0.10:80 -> 10.244.1.2 10.244.2.2 10.244.2.3", "*:30080 -> 10.244.1.2 10.244.2.2 10.244.2.3"];

#[test]
fn a_network_that_the_plugin_makes_later_is_waited_for() {
    let machine = Machine::new();
    let networks = machine.state()["networks"].clone();
    machine.with("networks", json!([]));
    let mut daemon = machine.start();
    let looks = || machine.calls().iter().filter(|call| *call == "HcnEnumerateNetworks").count();
    machine.until_so(|| looks() >= 5, || format!("{} looks", looks()));
    let line = "there is no network \"cbr0\" yet: the CNI plugin creates it";
    assert_eq!(machine.log().matches(line).count(), 1, "{}", machine.log());
    let healthz = || machine.get(10256, "/healthz").0;
    assert!(healthz() == 503 && !daemon.has_ended());
    machine.change(&json!({"networks": networks}));
    machine.until(&SERVED);
    machine.until_so(|| healthz() == 200, || healthz().to_string());
    // It goes with everything on it, and comes back.
    let empty = json!({"networks": [], "endpoints": [], "balancers": []});
    let endpoints = machine.state()["endpoints"].clone();
    let of_node: Vec<_> = endpoints.as_array().expect("a list").iter().filter(|it| it["Flags"] != 1).collect();
    machine.change(&empty);
    machine.until_so(|| machine.log().matches(line).count() == 2, || machine.log());
    machine.change(&json!({"networks": networks, "endpoints": of_node}));
    machine.until(&SERVED);
}

#[test]
fn a_network_without_a_name_is_an_error() {
    let machine = Machine::new();
    let output = finish(machine.proxy(&["--network-name=", "--manifests", &machine.manifests()])).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("set winkernel.networkName"), "{errors}");
}
