//! Waiting for something to come true, with a deadline.

use std::time::{Duration, Instant};

/// Long, because a loaded machine must not fail what is only late.
const PATIENCE: Duration = Duration::from_secs(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Looks until there is something to see, and tells how long that took.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for this: {what}");
        std::thread::sleep(BETWEEN_LOOKS);
    }
    start.elapsed()
}
