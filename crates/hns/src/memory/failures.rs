//! Calls that fail at random: before their effect, or after it, when the answer is lost.

use crate::{Error, ErrorKind};

use super::Operation;

pub(super) struct Failures {
    one_in: u64,
    seed: u64,
    /// How many calls are left.
    life: Option<u64>,
}

impl Failures {
    pub(super) fn new(one_in: u64, seed: u64) -> Self {
        Self { one_in, seed: seed | 1, life: None }
    }

    /// A small xorshift generator: the same seed fails at the same calls.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % limit.max(1)
    }

    pub(super) fn die_after(&mut self, calls: u64) {
        self.life = Some(calls);
    }

    pub(super) fn revive(&mut self) -> bool {
        self.life.take() == Some(0)
    }

    /// The error of this call, and whether it comes after the effect.
    pub(super) fn next(&mut self, operation: Operation) -> Option<(Error, bool)> {
        if self.life == Some(0) {
            return Some((Error::of(ErrorKind::NotRunning, format!("{operation:?} after the caller's death")), false));
        }
        self.life = self.life.map(|calls| calls - 1);
        if self.one_in == 0 || self.below(self.one_in) != 0 {
            return None;
        }
        let kind = if self.below(4) == 0 { ErrorKind::NotRunning } else { ErrorKind::Other };
        Some((Error::of(kind, format!("{operation:?} (a failure that a test injects)")), self.below(2) == 0))
    }
}
