//! The hooks that must be attached, shared by the thread that attaches them and the one that watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The programs that this process has attached, by the names of their links, with their numbers in the kernel.
#[derive(Clone, Default)]
pub(super) struct Attached(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    programs: Vec<(String, u32)>,
    /// How often they were attached.
    times: u64,
}

impl Attached {
    pub(super) fn set(&self, programs: Vec<(String, u32)>) {
        let mut state = self.state();
        state.programs = programs;
        state.times += 1;
    }

    /// The first program that is not among these, and how often the programs were attached.
    pub(super) fn lost(&self, found: &[(String, u32)]) -> Option<(String, u64)> {
        let state = self.state();
        let lost = state.programs.iter().find(|program| !found.contains(program));
        lost.map(|(name, _)| (name.clone(), state.times))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
