//! Random histories of a cluster: the kernel ends up with the plan of the last state. In every mode of the registry
//! that this machine can run; the VM runs the others.

use portolan_dataplane::{ModeSettings, modes};

use crate::history::random::check;
use crate::play::{cases, check_in_real_kernel, play};

/// In each mode, on a kernel in memory that fails one call in ten, and stops a failed write at any point.
#[test]
fn a_failing_kernel_ends_up_with_the_plan() {
    for mode in modes::ALL {
        let play = |history: &_, seed| play(*mode, history, &mut *mode.in_memory(&ModeSettings::default(), 10, seed));
        check(cases(500), play);
    }
}

/// The real kernel keeps its objects from one history to the next, as for a restarted daemon.
#[test]
fn the_real_kernel_ends_up_with_the_plan() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    for mode in modes::ALL.iter().filter(|mode| mode.missing().is_none()) {
        // The iptables programs are slow.
        let usual = if mode.name() == modes::default().name() { 400 } else { 60 };
        check_in_real_kernel(*mode, usual);
    }
}
