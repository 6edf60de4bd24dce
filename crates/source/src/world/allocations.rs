//! Loading and saving the state file.

use std::path::Path;
use std::time::{Duration, Instant};

use portolan_model::ServiceName;

use super::snapshot::World;
use crate::allocate::{self, Holding, StateError};
use crate::options::State;
use crate::report::Problem;

/// Between a failure to write the state file and the next attempt: a full disk must not slow down every change.
const PAUSE: Duration = Duration::from_secs(5);

impl World {
    pub(super) fn load_allocations(&mut self) {
        let directory = match &self.state {
            State::None => return,
            State::ReadOnly(directory) | State::ReadWrite(directory) => directory.clone(),
        };
        match allocate::load(&directory) {
            Ok(stored) => self.allocator.restore(stored),
            Err(error) => self.start_without(&directory, &error),
        }
    }

    /// Goes on without the stored allocations. The unreadable file is renamed, not overwritten.
    fn start_without(&mut self, directory: &Path, error: &StateError) {
        self.load_problem = Some(problem(directory, error));
        if matches!(self.state, State::ReadWrite(_)) {
            allocate::put_aside(directory);
            self.unsaved = true;
        }
    }

    /// Writes the state file if an allocation changed, which waits for the disk.
    pub(crate) fn save(&mut self) {
        let State::ReadWrite(directory) = &self.state else { return };
        if !self.unsaved || self.next_save.is_some_and(|time| Instant::now() < time) {
            return;
        }
        let saved = allocate::save(directory, self.held());
        self.next_save = saved.is_err().then(|| Instant::now() + PAUSE);
        self.save_problem = saved.as_ref().err().map(|error| problem(directory, error));
        self.unsaved = saved.is_err();
    }

    pub(crate) fn save_problem(&self) -> Option<&Problem> {
        self.save_problem.as_ref()
    }

    fn held(&self) -> impl Iterator<Item = (&ServiceName, Holding)> {
        let placed = self.snapshot.services.iter().chain(&self.snapshot.foreign);
        let placed = placed.map(|(name, service)| (name, Holding::of(service)));
        let others = self.allocator.holdings().iter().map(|(name, holding)| (name, holding.clone()));
        placed.chain(others).filter(|(_, holding)| !holding.is_empty())
    }
}

fn problem(directory: &Path, error: &StateError) -> Problem {
    let line = match error {
        StateError::Corrupt(error) => error.line() as u32,
        _ => 0,
    };
    let file = allocate::state_path(directory).display().to_string();
    Problem { file: file.into(), line, object: None, reason: error.to_string() }
}
