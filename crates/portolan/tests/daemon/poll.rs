//! Waiting for something to come true, with a deadline.

use std::time::{Duration, Instant};

/// Long, because a loaded machine must not fail what is only late.
const PATIENCE: Duration = Duration::from_secs(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Looks until there is something to see, and tells how long that took.
pub(crate) fn until(what: &str, look: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    assert!(comes_true(look), "waited {PATIENCE:?} for this: {what}");
    start.elapsed()
}

/// Looks until there is something to see, or for too long.
pub(crate) fn comes_true(mut look: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !look() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    true
}
