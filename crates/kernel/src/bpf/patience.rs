//! Repeats writes that fail for a moment.

use std::io;
use std::thread;
use std::time::Duration;

use crate::system::libc;

/// A map that is not allocated in advance takes memory from a small stock of its CPU, which the kernel refills a moment
/// later. Many writes at once can empty it: `ENOMEM`, with memory free.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Patience {
    failures: u32,
}

impl Patience {
    /// Whether the write may be repeated, after a pause. Progress restores the patience.
    pub(super) fn allows(&mut self, error: &io::Error, is_progress: bool) -> bool {
        if error.raw_os_error() != Some(libc::ENOMEM) {
            return false;
        }
        self.failures = if is_progress { 1 } else { self.failures + 1 };
        let is_allowed = self.failures < ATTEMPTS;
        if is_allowed {
            thread::sleep(PAUSE);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_memory_is_worth_another_attempt_and_not_for_ever() {
        let of = io::Error::from_raw_os_error;
        assert!(!Patience::default().allows(&of(libc::E2BIG), true));
        let mut patience = Patience::default();
        assert_eq!((0..100).filter(|_| patience.allows(&of(libc::ENOMEM), false)).count(), ATTEMPTS as usize - 1);
        assert!(patience.allows(&of(libc::ENOMEM), true));
    }
}
