//! Tests that need kernel modules which most build machines lack, in a VM: `make test-vm`.
//!
//! Emulation makes process starts slow, so most tests share one lab, one at a time. Those of the daemon have their own
//! labs.

#[path = "../scenarios/bench.rs"]
mod bench;
#[path = "../daemon/both_sides.rs"]
#[expect(dead_code, reason = "the tests of the daemon on the host use more")]
mod both_sides;
#[path = "../daemon/carried.rs"]
mod carried;
mod cost;
mod daemon;
mod draining;
#[path = "../daemon/drift.rs"]
mod drift;
#[path = "../daemon/hanging.rs"]
#[expect(dead_code, reason = "the tests of the daemon on the host use more")]
mod hanging;
#[path = "../../../plan/tests/history/mod.rs"]
mod history;
mod kernel;
mod kernels;
#[path = "../scenarios/live.rs"]
mod live;
#[path = "../scenarios/mode.rs"]
#[expect(dead_code, reason = "goldens and kernels in memory are for the host")]
mod mode;
mod modes;
#[path = "../daemon/moving.rs"]
mod moving;
#[path = "../daemon/node.rs"]
#[expect(dead_code, reason = "the tests of the daemon on the host use more")]
mod node;
#[path = "../scenarios/open.rs"]
mod open;
#[path = "../../../dataplane/tests/dataplane/play.rs"]
mod play;
#[path = "../daemon/poll.rs"]
mod poll;
mod schedulers;
mod sctp;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "golden files are written on the host")]
mod support;
#[path = "../daemon/switching.rs"]
mod switching;
mod views;
mod world;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use portolan_testkit::Lab;

/// Shared by all tests, one at a time. A failed test leaves a state that the next one replaces.
fn lab() -> MutexGuard<'static, Lab> {
    static LAB: OnceLock<Mutex<Lab>> = OnceLock::new();
    let lab = LAB.get_or_init(|| Mutex::new(Lab::new().expect("the VM has all that a lab needs")));
    lab.lock().unwrap_or_else(PoisonError::into_inner)
}
