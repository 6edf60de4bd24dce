//! The chains that other processes have changed, as their notifications name them: a repair reads these, and not the
//! thousands of others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::objects::Place;

/// Reading everything costs as much as reading some dozens of chains one by one.
const MOST_CHAINS: usize = 16;

/// The thread that watches adds chains, and the one that syncs takes them.
#[derive(Clone, Default)]
pub(super) struct NotedChains(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    chains: BTreeSet<Place>,
    /// There were too many, so that some are missing.
    is_incomplete: bool,
}

impl NotedChains {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, place: Place) {
        let mut noted = self.lock();
        noted.chains.insert(place);
        if noted.chains.len() > MOST_CHAINS {
            *noted = Noted { is_incomplete: true, ..Noted::default() };
        }
    }

    /// Called before everything is read, which includes all that was noted so far.
    pub(super) fn clear(&self) {
        *self.lock() = Noted::default();
    }

    /// `None` if everything has to be read.
    pub(super) fn take(&self) -> Option<BTreeSet<Place>> {
        let mut noted = self.lock();
        if noted.is_incomplete { None } else { Some(std::mem::take(&mut noted.chains)) }
    }
}

#[cfg(test)]
mod tests {
    use portolan_model::Family;

    use super::*;
    use crate::tables::Table;

    fn place(number: usize) -> Place {
        Place::new(Family::V4, Table::Nat, format!("KUBE-SVC-{number}"))
    }

    #[test]
    fn some_chains_are_taken_and_too_many_are_all() {
        let noted = NotedChains::default();
        [place(1), place(2), place(1)].into_iter().for_each(|place| noted.add(place));
        assert_eq!(noted.take(), Some([place(1), place(2)].into()));
        assert_eq!(noted.take(), Some([].into()));
        (0..=MOST_CHAINS).for_each(|number| noted.add(place(number)));
        assert_eq!(noted.take(), None);
        noted.add(place(1));
        assert_eq!(noted.take(), None, "until everything is read");
        noted.clear();
        assert_eq!(noted.take(), Some([].into()));
    }
}
