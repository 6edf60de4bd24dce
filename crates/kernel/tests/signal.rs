//! Waiting for termination signals. A separate test program, because it signals the process.

use portolan_kernel::signal::{Signal, block_termination_signals};

/// Signals this thread only: the harness has threads that do not block signals.
fn raise(signal: i32) {
    // SAFETY: takes no pointers, and the signal is blocked.
    let outcome = unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    assert_eq!(outcome, 0);
}

#[test]
fn signals_are_received_instead_of_ending_the_process() {
    let signals = block_termination_signals().unwrap();
    raise(libc::SIGTERM);
    assert_eq!(signals.wait(), Signal::Terminate);
    raise(libc::SIGINT);
    assert_eq!(signals.wait(), Signal::Interrupt);
}
