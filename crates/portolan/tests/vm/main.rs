//! What the kernel of most machines that build lacks, in a VM that has it: `make test-vm`.
//!
//! Emulation makes every process that is started slow, so that most tests share one lab, one at a time. Those of the daemon have
//! labs of their own.

mod cost;
mod daemon;
mod draining;
#[path = "../../../plan/tests/history/mod.rs"]
mod history;
mod kernel;
#[path = "../scenarios/live.rs"]
mod live;
#[path = "../scenarios/mode.rs"]
#[expect(dead_code, reason = "goldens and kernels in memory are for the host")]
mod mode;
mod modes;
#[path = "../daemon/node.rs"]
#[expect(dead_code, reason = "the tests of the daemon on the host use more")]
mod node;
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

/// One for all tests, and for one at a time. A test that fails leaves it in a state that the next one replaces.
fn lab() -> MutexGuard<'static, Lab> {
    static LAB: OnceLock<Mutex<Lab>> = OnceLock::new();
    let lab = LAB.get_or_init(|| Mutex::new(Lab::new().expect("the VM has all that a lab needs")));
    lab.lock().unwrap_or_else(PoisonError::into_inner)
}
