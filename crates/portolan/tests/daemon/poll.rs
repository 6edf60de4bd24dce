//! Polls for a condition, with a timeout.

use std::time::{Duration, Instant};

/// Long, because a loaded machine must not fail a test that is only slow.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longer, because starting a program takes seconds under emulation.
const TIMEOUT_IN_VM: Duration = Duration::from_secs(120);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Polls until the condition holds, and returns the elapsed time.
pub(crate) fn until(what: &str, look: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    assert!(comes_true(look), "timed out after {:?}: {what}", timeout());
    start.elapsed()
}

/// Polls until the condition holds, or until the timeout.
pub(crate) fn comes_true(mut look: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !look() {
        if start.elapsed() > timeout() {
            return false;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    true
}

fn timeout() -> Duration {
    if std::env::var_os("IN_TEST_VM").is_some() { TIMEOUT_IN_VM } else { TIMEOUT }
}
