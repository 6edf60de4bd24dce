//! Modes that need kernel modules which build machines lack: every scenario with real packets, and random histories.

use portolan_dataplane::modes;
use portolan_dataplane::peers::cleanup_everything;
use portolan_testkit::topology;

use crate::live::check_steps;
use crate::mode::{self, Tested};
use crate::play::check_in_real_kernel;
use crate::support::scenarios;
use crate::{lab, support};

fn modes_of_the_vm() -> impl Iterator<Item = Tested> {
    mode::all().filter(|tested| !tested.mode.kernel_modules().is_empty())
}

#[test]
fn the_vm_runs_every_mode() {
    let lab = lab();
    for mode in modes::ALL {
        let missing = lab.host(topology::NODE).run(|| mode.missing());
        assert_eq!(missing, None, "{} mode", mode.name());
    }
    assert!(modes_of_the_vm().count() > 0 && support::folder().exists());
}

/// One after the other on one node, so that each also replaces the objects of another.
#[test]
fn real_packets_go_as_written() {
    let lab = lab();
    let mut failures = Vec::new();
    for tested in modes_of_the_vm() {
        let mut bit = 14;
        let mut active = tested.open(&lab, bit).expect("the VM has what the mode needs");
        for scenario in scenarios() {
            let wanted = tested.session(&scenario).masquerade_bit;
            if wanted != bit {
                active.use_settings(&tested.settings(wanted)).expect("the mode accepts new settings");
                bit = wanted;
            }
            let outcome = check_steps(&lab, &scenario, tested, &mut *active);
            failures.extend(outcome.err().map(|failure| format!("{}: {failure}", scenario.name)));
        }
    }
    assert!(failures.is_empty(), "{} scenarios fail:\n\n{}", failures.len(), failures.join("\n\n"));
}

/// As many as emulation allows.
const HISTORIES: u32 = 10;

#[test]
fn random_histories_end_up_with_the_plan() {
    let lab = lab();
    let node = lab.host(topology::NODE);
    for tested in modes_of_the_vm() {
        node.run(cleanup_everything);
        node.run(|| check_in_real_kernel(tested.mode, HISTORIES));
    }
    assert!(node.run(cleanup_everything).is_complete(), "everything can be removed");
}
