//! Every scenario file through the API server: the program on the API must write exactly the rules that standalone mode
//! writes for the same file.

use std::collections::BTreeMap;
use std::process::Command;

use portolan_testkit::cluster::Program;
use portolan_testkit::{Error, PacketLine, Protocol, Scenario, topology};
use rustix::process::Signal;

use crate::cluster::Cluster;
use crate::portolan::text;
use crate::publish::Publisher;

/// Scenarios that an API server refuses, and its error.
const REFUSED: [(&str, &str); 4] = [
    ("edges-of-the-service-range", "provided IP is already allocated"),
    ("leading-zeros", "must not have leading 0s"),
    ("load-balancer-ip-of-another-type", "may only be used when `spec.type` is 'LoadBalancer'"),
    ("only-the-first-address-of-an-endpoint", "endpoints[1].addresses: Required value"),
];

/// The server's ranges are fixed at its start, and have both families.
const OTHER_RANGES: [&str; 1] = ["service-range-of-one-family"];

/// All are programmed and compared; one in so many also sends its packets. Without a cluster, all do.
const PACKETS_OF_EVERY: usize = 6;

#[test]
fn every_scenario_comes_out_the_same_through_the_api_server() {
    let cluster = Cluster::empty();
    let mut refused = BTreeMap::new();
    let mut failures = Vec::new();
    for (number, scenario) in scenarios().iter().enumerate() {
        match run(&cluster, scenario, number % PACKETS_OF_EVERY == 0) {
            Ok(()) => {}
            Err(Failure::Refused(reason)) => drop(refused.insert(scenario.name.clone(), reason)),
            Err(Failure::Different(reason)) => failures.push(format!("{}: {reason}", scenario.name)),
        }
    }
    for (name, reason) in &refused {
        println!("{name}: {reason}");
    }
    assert!(failures.is_empty(), "{} scenarios fail:\n\n{}", failures.len(), failures.join("\n\n"));
    assert_refused_as_expected(&refused);
}

fn assert_refused_as_expected(refused: &BTreeMap<String, String>) {
    for (name, reason) in refused {
        let known = REFUSED.iter().find(|(known, _)| known == name);
        let expected = known.unwrap_or_else(|| panic!("the API server refuses the scenario {name}: {reason}")).1;
        assert!(reason.contains(expected), "{name}: expected {expected:?}, but the error is {reason:?}");
    }
}

fn scenarios() -> Vec<Scenario> {
    let wanted = std::env::var("SCENARIO").unwrap_or_default();
    let all = Scenario::all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios")).unwrap();
    // The time of a scenario passes in no daemon.
    let is_possible =
        |it: &Scenario| it.name.contains(&wanted) && !it.has_time() && !OTHER_RANGES.contains(&it.name.as_str());
    all.into_iter().filter(is_possible).collect()
}

enum Failure {
    /// The server refuses the objects.
    Refused(String),
    Different(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused { code: 422, reason, .. } => Self::Refused(reason),
            error => Self::Different(error.to_string()),
        }
    }
}

fn run(cluster: &Cluster, scenario: &Scenario, with_packets: bool) -> Result<(), Failure> {
    let mut publisher = Publisher::new(cluster.control_plane.client());
    let result = run_steps(cluster, scenario, &mut publisher, with_packets);
    publisher.clear()?;
    clean_up(cluster);
    result
}

fn run_steps(
    cluster: &Cluster,
    scenario: &Scenario,
    publisher: &mut Publisher<'_>,
    with_packets: bool,
) -> Result<(), Failure> {
    let mut daemon: Option<Program> = None;
    for (number, step) in (1..).zip(&scenario.steps) {
        publisher.publish(&step.objects)?;
        let daemon = daemon.get_or_insert_with(|| start(cluster, scenario));
        let held = cluster.comes_to_hold(&step.objects, &flags(scenario));
        held.map_err(|reason| in_step(number, &format!("{reason}\n{}", daemon.log())))?;
        if with_packets {
            let sent = cluster.lab.verify_all(&sendable(cluster, &step.packets));
            sent.map_err(|reason| in_step(number, &reason))?;
        }
    }
    daemon.map(|daemon| daemon.end(Signal::TERM));
    Ok(())
}

fn in_step(number: usize, reason: &str) -> Failure {
    Failure::Different(format!("step {number}: {reason}"))
}

fn flags(scenario: &Scenario) -> Vec<&str> {
    scenario.flags.iter().map(String::as_str).collect()
}

fn start(cluster: &Cluster, scenario: &Scenario) -> Program {
    cluster.start_program("portolan", cluster.portolan_command(&flags(scenario)))
}

/// The next scenario starts on an empty node, without tracked connections.
fn clean_up(cluster: &Cluster) {
    let mut cleanup = Command::new(env!("CARGO_BIN_EXE_portolan"));
    cleanup.arg("cleanup");
    let output = cluster.run(cleanup);
    assert!(output.status.success(), "{}", text(&output));
    cluster.lab.host(topology::NODE).command(&["conntrack", "-F"]).unwrap();
}

/// All packets but those of a protocol that this kernel lacks.
fn sendable(cluster: &Cluster, packets: &[PacketLine]) -> Vec<PacketLine> {
    let can_send = |line: &&PacketLine| line.protocol != Protocol::Sctp || cluster.lab.supports_sctp();
    packets.iter().filter(can_send).cloned().collect()
}
