//! The hooks that must be attached, shared by the thread that attaches them and the one that watches.

use std::sync::{Arc, Mutex, PoisonError};

/// The programs that this process has attached, by the names of their links, with their numbers in the kernel.
#[derive(Clone, Default)]
pub(super) struct Attached(Arc<Mutex<Vec<(String, u32)>>>);

impl Attached {
    pub(super) fn set(&self, programs: Vec<(String, u32)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = programs;
    }

    /// The first program that is not among these.
    pub(super) fn lost(&self, found: &[(String, u32)]) -> Option<String> {
        let attached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        attached.iter().find(|program| !found.contains(program)).map(|(name, _)| name.clone())
    }
}
