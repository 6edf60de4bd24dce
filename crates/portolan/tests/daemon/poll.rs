//! Waiting for something to come true, with a deadline.

use std::time::{Duration, Instant};

/// Long, because a loaded machine must not fail what is only late.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer, because starting a program takes seconds under emulation.
const PATIENCE_IN_VM: Duration = Duration::from_secs(120);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Looks until there is something to see, and tells how long that took.
pub(crate) fn until(what: &str, look: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    assert!(comes_true(look), "waited {:?} for this: {what}", patience());
    start.elapsed()
}

/// Looks until there is something to see, or for too long.
pub(crate) fn comes_true(mut look: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !look() {
        if start.elapsed() > patience() {
            return false;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    true
}

fn patience() -> Duration {
    if std::env::var_os("IN_TEST_VM").is_some() { PATIENCE_IN_VM } else { PATIENCE }
}
