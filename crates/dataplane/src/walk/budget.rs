//! Limits of a walk: jumps and random branches multiply, so that a few rules can lead to more paths than fit into memory. Under a
//! fuzzer they are smaller, so that millions of inputs can be tried, but a hash table of 251 slots still fits.

use std::cell::Cell;

use super::Branch;

/// Expressions that are run for all branches together, in a few seconds. A firewall of 500 rules, for each of 5,000
/// endpoints, has fewer.
const MOST_STEPS: usize = if cfg!(fuzzing) { 100_000 } else { 10_000_000 };
/// What random branches copy of the branch that they come from, in bytes. The largest table of Maglev hashing has less.
const MOST_COPIED: usize = if cfg!(fuzzing) { 20_000_000 } else { 100_000_000 };

/// What is left for one walk. Beyond it the fate of a packet is unknown.
pub struct Budget {
    steps: Cell<usize>,
    /// In bytes.
    copied: Cell<usize>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MOST_STEPS, MOST_COPIED)
    }
}

impl Budget {
    pub fn new(steps: usize, copied: usize) -> Self {
        Self { steps: Cell::new(steps), copied: Cell::new(copied) }
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
        let is_affordable = spend(&self.copied, (count as usize).saturating_mul(branch.size()));
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

#[cfg(test)]
mod tests {
    use portolan_model::Protocol;
    use portolan_plan::Packet;

    use super::*;
    use crate::walk::Met;

    #[test]
    fn the_largest_table_of_maglev_hashing_is_followed() {
        let packet = Packet {
            source: "10.244.1.2".parse().unwrap(),
            interface: Some("veth-a1".into()),
            destination: "10.96.0.1".parse().unwrap(),
            port: 80,
            protocol: Protocol::Tcp,
            is_from_socket: false,
        };
        let mut branch = Branch::new(&packet);
        branch.path = vec![Met::new("map services: 10.96.0.1 . tcp . 80", "a dispatch key"); 8];
        branch.notes = vec!["a rule that is not understood".repeat(8)];
        assert!(Budget::default().copy(&branch, 65_521));
    }
}
