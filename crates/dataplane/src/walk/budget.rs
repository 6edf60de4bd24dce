//! Limits of a walk: jumps and random branches multiply, so that a few rules can lead to more paths than fit into memory. Under a
//! fuzzer they are smaller, so that millions of inputs can be tried.

use std::cell::Cell;

use super::Branch;

/// Expressions that are run for all branches together, in a few seconds. A firewall of 500 rules, for each of 5,000
/// endpoints, has fewer.
const MOST_STEPS: usize = if cfg!(fuzzing) { 2_000 } else { 10_000_000 };
/// What random branches copy of the branch that they come from, itself and its rules and notes: up to 100 MB. A Service with
/// 20,000 endpoints has fewer.
const MOST_COPIES: usize = if cfg!(fuzzing) { 500 } else { 100_000 };

/// What is left for one walk. Beyond it the fate of a packet is unknown.
pub struct Budget {
    steps: Cell<usize>,
    copies: Cell<usize>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MOST_STEPS, MOST_COPIES)
    }
}

impl Budget {
    pub fn new(steps: usize, copies: usize) -> Self {
        Self { steps: Cell::new(steps), copies: Cell::new(copies) }
    }

    pub fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    /// Whether there was room for one more step.
    pub(crate) fn step(&self) -> bool {
        spend(&self.steps, 1)
    }

    /// Whether there was room for so many copies of the branch. If not, there is no room for further steps either: what is
    /// not followed makes the rest worthless.
    pub(crate) fn copy(&self, branch: &Branch, count: u32) -> bool {
        let is_affordable = spend(&self.copies, (count as usize).saturating_mul(branch.weight()));
        if !is_affordable {
            self.steps.set(0);
        }
        is_affordable
    }
}

fn spend(left: &Cell<usize>, cost: usize) -> bool {
    let rest = left.get().checked_sub(cost);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}
