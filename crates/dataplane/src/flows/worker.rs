//! The thread that deletes stale flows. A walk of a large connection table takes a second, in which many changes may have to
//! be programmed: a sync leaves a note here and goes on.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use portolan_kernel::IS_LINUX;
use portolan_kernel::conntrack::Conntrack;
use portolan_model::Family;
use portolan_plan::Plan;

use super::{Suspects, forget_stale_flows};
use crate::Error;
use crate::report::SyncReport;

/// A packet that was translated by the old rules may enter the table after the walk. The second walk finds its flow.
const SECOND_WALK: Duration = Duration::from_millis(500);
/// Under constant change, the worker rests this many times as long as it walks: it takes a fifth of a processor.
const REST: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(5);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Notes a finished walk: the family, the time that it took, and the number of deleted flows.
pub type NoteWalk = Box<dyn Fn(Family, Duration, usize) + Send>;

pub struct FlowWorker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    notes: Mutex<Notes>,
    changed: Condvar,
}

/// What the syncs since the last walk have left.
#[derive(Default)]
struct Notes {
    plan: Plan,
    suspects: Suspects,
    is_due: bool,
    is_ended: bool,
}

impl FlowWorker {
    /// For the network namespace of the calling thread.
    pub fn start(note: NoteWalk) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        if !IS_LINUX {
            return Ok(Self { shared });
        }
        let worker = Worker { shared: shared.clone(), conntrack: Conntrack::open()?, note };
        let thread = thread::Builder::new().name("flows".into()).spawn(|| worker.work());
        thread.map_err(|error| Error::Program {
            attempted: "starting the thread that deletes stale flows".into(),
            reason: error.to_string(),
        })?;
        Ok(Self { shared })
    }

    /// The plan is in force. Flows that this sync made stale are deleted soon.
    pub fn follow(&self, synced: &SyncReport, plan: &Plan) {
        // Elsewhere there is no table of connections that could be walked.
        if !IS_LINUX {
            return;
        }
        let mut notes = self.shared.lock();
        notes.is_due |= notes.suspects.add(&synced.changes, plan);
        if synced.has_completed_rules() {
            notes.suspects.add_untranslated();
            notes.is_due = true;
        }
        notes.plan = plan.clone();
        if notes.is_due {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for FlowWorker {
    fn drop(&mut self) {
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no thread panics while it holds the notes")
    }

    /// Waits until a walk is due: at the given time, or as soon as a sync leaves a note. `None` at the end.
    fn next(&self, at: Option<Instant>) -> Option<(Plan, Suspects, bool)> {
        let mut notes = self.lock();
        loop {
            let left = at.map(|at| at.saturating_duration_since(Instant::now()));
            if notes.is_ended {
                return None;
            }
            if notes.is_due || left == Some(Duration::ZERO) {
                let is_new = std::mem::take(&mut notes.is_due);
                return Some((notes.plan.clone(), std::mem::take(&mut notes.suspects), is_new));
            }
            notes = match left {
                Some(left) => self.changed.wait_timeout(notes, left).expect("as above").0,
                None => self.changed.wait(notes).expect("as above"),
            };
        }
    }
}

/// A walk that is still to come, and what it looks for.
struct Again {
    at: Instant,
    suspects: Suspects,
    /// The next walk is the first that succeeds, so that one more follows.
    is_first: bool,
}

struct Worker {
    shared: Arc<Shared>,
    conntrack: Conntrack,
    note: NoteWalk,
}

impl Worker {
    fn work(mut self) {
        let mut again: Option<Again> = None;
        let mut retry = FIRST_RETRY;
        while let Some((plan, mut suspects, is_new)) = self.shared.next(again.as_ref().map(|again| again.at)) {
            let mut is_first = is_new;
            if let Some(again) = again.take() {
                is_first |= again.is_first;
                suspects.merge(again.suspects);
            }
            let begin = Instant::now();
            match self.walk(&suspects, &plan) {
                Ok(()) => {
                    retry = FIRST_RETRY;
                    again = is_first.then(|| Again { at: Instant::now() + SECOND_WALK, suspects, is_first: false });
                    thread::sleep((begin.elapsed() * REST).min(LONGEST_REST));
                }
                Err(error) => {
                    tracing::error!("deleting stale flows: {error}; retrying in {retry:?}");
                    thread::sleep(FIRST_RETRY);
                    again = Some(Again { at: Instant::now() + retry, suspects, is_first: true });
                    retry = (retry * 2).min(LONGEST_RETRY);
                }
            }
        }
    }

    fn walk(&mut self, suspects: &Suspects, plan: &Plan) -> Result<(), Error> {
        for family in Family::BOTH {
            let begin = Instant::now();
            let count = forget_stale_flows(&mut self.conntrack, family, suspects, plan)?;
            (self.note)(family, begin.elapsed(), count);
        }
        Ok(())
    }
}
