//! Modes that need kernel modules which build machines lack: every scenario with real packets, and random histories.

use portolan_dataplane::modes;
use portolan_dataplane::peers::cleanup_everything;
use portolan_testkit::topology;

use crate::bench::check_on_bench;
use crate::lab;
use crate::mode::{self, Tested};
use crate::play::check_in_real_kernel;
use crate::support::{check_all, folder, scenarios};

fn modes_of_the_vm() -> impl Iterator<Item = Tested> {
    mode::all().filter(|tested| !tested.mode.kernel_modules().is_empty())
}

#[test]
fn the_vm_runs_every_mode() {
    let lab = lab();
    for mode in modes::ALL.iter().filter(|mode| mode.system() == std::env::consts::OS) {
        let missing = lab.host(topology::NODE).run(|| mode.missing());
        assert_eq!(missing, None, "{} mode", mode.name());
    }
    assert!(modes_of_the_vm().count() > 0 && folder().exists());
}

/// On two labs, one for each processor of the VM.
#[test]
fn real_packets_go_as_written() {
    for tested in modes_of_the_vm() {
        check_all(scenarios(), 2, || None, |bench, scenario| check_on_bench(bench, scenario, tested));
    }
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
