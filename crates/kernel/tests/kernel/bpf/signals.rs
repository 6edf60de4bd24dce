//! Programs are loaded while signals arrive, which end the work of the verifier.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::lab::Lab;

/// The verifier takes less for one program.
const BETWEEN: Duration = Duration::from_millis(3);
const LOADS: usize = 20;

extern "C" fn ignore(_: libc::c_int) {}

fn handle_signals() {
    // SAFETY: the handler does nothing.
    let before = unsafe { libc::signal(libc::SIGUSR1, ignore as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
}

#[test]
fn a_signal_does_not_keep_a_program_from_being_loaded() {
    handle_signals();
    let (lab, (end, ended)) = (Lab::in_pod(), channel::<()>());
    // SAFETY: takes no arguments.
    let loading = unsafe { libc::pthread_self() };
    let interrupt = move || {
        while ended.recv_timeout(BETWEEN) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: that thread waits for the end of this one.
            unsafe { libc::pthread_kill(loading, libc::SIGUSR1) };
        }
    };
    thread::scope(|scope| {
        scope.spawn(interrupt);
        let loaded = catch_unwind(AssertUnwindSafe(|| (0..LOADS).for_each(|_| drop(lab.load()))));
        drop(end);
        assert!(loaded.is_ok(), "every program is loaded");
    });
}
