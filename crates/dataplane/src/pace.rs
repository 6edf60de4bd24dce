//! Readings that take long are repeated less often, so that they take a bounded part of a processor.

use std::time::{Duration, Instant};

/// A reading takes at most this part of the time.
const PART: u32 = 50;

#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the next reading is due.
    again: Option<Instant>,
}

impl Pace {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.again.is_none_or(|again| again <= now)
    }

    /// A reading began at this time, and took so long.
    pub(crate) fn note(&mut self, begin: Instant, took: Duration) {
        self.again = Some(begin + took * PART);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reading_is_repeated_later() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        assert!(pace.is_due(begin));
        pace.note(begin, Duration::from_secs(1));
        assert!(!pace.is_due(begin + Duration::from_secs(49)) && pace.is_due(begin + Duration::from_secs(50)));
    }
}
