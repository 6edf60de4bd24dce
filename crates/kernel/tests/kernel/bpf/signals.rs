//! Programs are loaded while signals arrive, which end the work of the verifier.

use std::sync::atomic::{AtomicBool, Ordering};
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
    let (lab, is_over) = (Lab::in_pod(), AtomicBool::new(false));
    // SAFETY: takes no arguments; the thread outlives the scope.
    let thread = unsafe { libc::pthread_self() };
    let interrupt = || {
        while !is_over.load(Ordering::Relaxed) {
            // SAFETY: the thread waits for this one.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            thread::sleep(BETWEEN);
        }
    };
    thread::scope(|scope| {
        scope.spawn(interrupt);
        let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..LOADS).for_each(|_| drop(lab.load()));
        }));
        is_over.store(true, Ordering::Relaxed);
        assert!(loaded.is_ok());
    });
}
