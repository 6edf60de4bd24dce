//! SCTP with real packets.

use portolan_dataplane::mode::Mode;
use portolan_dataplane::peers::cleanup_everything;
use portolan_dataplane::tables::Variant;
use portolan_testkit::{Lab, Protocol, Scenario, topology};

use crate::lab;
use crate::live::check_steps;
use crate::mode::{self, Tested};
use crate::support::scenarios;

/// The modes of the VM send SCTP with all their scenarios.
fn modes_of_the_host() -> impl Iterator<Item = Tested> {
    let is_of_host = |mode: &dyn Mode| mode.kernel_modules().is_empty() && mode.system() == std::env::consts::OS;
    mode::all().filter(move |tested| is_of_host(tested.mode) && !tested.mode.limits().relayed)
}

#[test]
fn sctp_goes_as_written() {
    modes_of_the_host().for_each(check);
}

#[test]
fn sctp_goes_as_written_with_legacy_tables() {
    let with_tables = modes_of_the_host().filter(|tested| tested.mode.batches_changes());
    with_tables.for_each(|tested| check(Tested { variant: Variant::Legacy, ..tested }));
}

fn check(tested: Tested) {
    // Hooks need a lab with a cgroup of its own.
    match tested.has_hooks() {
        true => check_on(&tested.lab().expect("the VM has all that a lab needs"), tested),
        false => check_on(&lab(), tested),
    }
}

fn check_on(lab: &Lab, tested: Tested) {
    assert!(lab.supports_sctp(), "the kernel of the VM has SCTP");
    let with_sctp: Vec<Scenario> = scenarios().into_iter().filter(sends_sctp).collect();
    assert!(with_sctp.len() >= 3, "there are scenarios with SCTP");
    let node = lab.host(topology::NODE);
    // Other tests use the same lab.
    node.run(cleanup_everything);
    for scenario in with_sctp {
        let mut active = tested.open(lab, tested.session(&scenario).masquerade_bit).expect("the mode can be opened");
        check_steps(lab, &scenario, tested, &mut *active)
            .unwrap_or_else(|failure| panic!("{}, {}: {failure}", tested.name(), scenario.name));
    }
    let report = node.run(cleanup_everything);
    assert!(report.is_complete(), "{report}");
}

fn sends_sctp(scenario: &Scenario) -> bool {
    scenario.steps.iter().flat_map(|step| &step.packets).any(|packet| packet.protocol == Protocol::Sctp)
}
