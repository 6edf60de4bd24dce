//! The snapshot of a set of manifest files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use portolan_model::{ServiceName, Snapshot};

use crate::convert::context::Defaults;
use crate::files::{self, Listing, Place, Stamp};
use crate::intern::Interner;
use crate::object::{Kind, Object, ObjectId};
use crate::options::{Options, State};
use crate::parse;
use crate::reading::{self, FileContent, Outcome, ReadFile, Request};
use crate::report::{Ignored, Problem, Report};
use crate::store::{Store, Taken};
use crate::world::World;

/// The objects of a set of files, kept up to date.
#[derive(Debug)]
pub struct Manifests {
    options: Options,
    names: Interner,
    store: Store,
    world: World,
    /// Paths that could not be listed.
    missing: Vec<Problem>,
    reported: HashSet<Problem>,
}

/// What a reload found to do.
#[derive(Default)]
struct Progress {
    taken: BTreeMap<u32, Taken>,
    touched: Vec<ObjectId>,
    ignored: Vec<Ignored>,
}

impl Manifests {
    /// Reads nothing but the state file.
    pub fn new(options: Options) -> Self {
        let world = World::new(&options);
        let (names, store, missing, reported) = Default::default();
        Self { options, names, store, world, missing, reported }
    }

    /// One file that exists only in memory, for tests and scenarios. Nothing is written to disk.
    pub fn from_text(options: Options, name: &str, text: &str) -> (Self, Report) {
        let options = Options { paths: vec![PathBuf::from(name)], state: State::None, ..options };
        let mut manifests = Self::new(options);
        let report = manifests.set_text(text);
        (manifests, report)
    }

    /// Replaces the text of a file that exists only in memory.
    pub fn set_text(&mut self, text: &str) -> Report {
        let place = (0, self.options.paths.first().cloned().unwrap_or_default());
        let number = self.number(place);
        self.update(vec![self.request(number, None, Some(text.to_owned()))], Vec::new())
    }

    /// Reads the files that changed on disk and updates the snapshot. A file that did not change costs one `stat`.
    pub fn reload(&mut self) -> Report {
        let mut report = self.reload_quickly();
        report.new_problems.extend(self.save());
        report.problems = self.problems();
        report
    }

    /// The same without writing the state file, which takes longer than all the rest; see [`Self::save`].
    pub fn reload_quickly(&mut self) -> Report {
        let listing = files::list(&self.options.paths);
        let gone = self.gone(&listing);
        self.missing = listing.failures.iter().map(|(_, path, error)| missing(path, error)).collect();
        let candidates = listing.files.into_iter().filter_map(|(place, stamp)| self.candidate(place, stamp.ok()));
        let candidates = candidates.collect();
        self.update(candidates, gone)
    }

    /// Writes the state file if an allocation changed. Returns a problem that was not reported before.
    pub fn save(&mut self) -> Option<Problem> {
        self.world.save();
        let problem = self.world.save_problem()?.clone();
        self.reported.insert(problem.clone()).then_some(problem)
    }

    pub fn snapshot(&self) -> Snapshot {
        self.world.snapshot()
    }

    /// Where a Service is defined, as `FILE:LINE`.
    pub fn origin(&self, name: &ServiceName) -> Option<String> {
        let (file, line) = self.store.origin(&ObjectId::of(Kind::Service, name))?;
        Some(format!("{file}:{line}"))
    }

    /// Whether the containers of a Pod get environment variables for the Services of its namespace; `None` without such a Pod.
    pub fn has_service_links(&self, namespace: &str, pod: &str) -> Option<bool> {
        let id = ObjectId { kind: Kind::Pod, namespace: namespace.into(), name: pod.into() };
        match self.store.object(&id)? {
            Object::Pod(pod) => Some(pod.service_links),
            _ => None,
        }
    }

    /// Paths that cannot be listed and files that cannot be read. What they define is unknown.
    pub fn unreadable(&self) -> Vec<Problem> {
        let files = self.store.files().filter_map(unreadable);
        self.missing.iter().cloned().chain(files).collect()
    }

    fn number(&mut self, place: Place) -> u32 {
        self.store.number(&place).unwrap_or_else(|| self.store.add_file(place))
    }

    /// Files that are no longer there. A path that cannot be listed may come back, so its files are not gone.
    fn gone(&self, listing: &Listing) -> Vec<u32> {
        let there: BTreeSet<&Place> = listing.files.iter().map(|(place, _)| place).collect();
        let lost: BTreeSet<usize> = listing.failures.iter().map(|(index, _, _)| *index).collect();
        let gone = self.store.places().filter(|(place, _)| !there.contains(place) && !lost.contains(&place.0));
        gone.map(|(_, number)| number).collect()
    }

    /// A file that may have changed.
    fn candidate(&mut self, place: Place, stamp: Option<Stamp>) -> Option<Request> {
        let number = self.number(place);
        let known = self.store.file(number).and_then(|file| file.stamp);
        (known.is_none() || known != stamp).then(|| self.request(number, stamp, None))
    }

    fn request(&self, number: u32, stamp: Option<Stamp>, text: Option<String>) -> Request {
        let file = self.store.file(number);
        let (index, path) = file.map(|file| file.place.clone()).unwrap_or_default();
        // A pipe is read where it is named, and not where it lies in a directory.
        let may_be_pipe = self.options.is_read_once && self.options.paths.get(index) == Some(&path);
        Request { number, path, may_be_pipe, stamp, text, known: file.and_then(|file| file.hash) }
    }

    fn update(&mut self, candidates: Vec<Request>, gone: Vec<u32>) -> Report {
        let mut progress = Progress::default();
        for number in candidates.iter().map(|candidate| candidate.number).chain(gone.iter().copied()) {
            progress.taken.insert(number, self.store.take(number));
        }
        gone.into_iter().for_each(|number| self.store.remove_file(number));
        reading::read(candidates, |file| self.take_in(file, &mut progress));
        let changed = self.update_world(&mut progress);
        self.report(progress.ignored, changed)
    }

    /// The objects of a file stay as they were if it did not change or cannot be read.
    fn take_in(&mut self, read: ReadFile, progress: &mut Progress) {
        let ReadFile { number, stamp, outcome } = read;
        let Some(file) = self.store.file_mut(number) else { return };
        file.stamp = stamp.filter(|_| !matches!(outcome, Outcome::Unreadable(_)));
        file.failure = None;
        match outcome {
            Outcome::Changed(content) => {
                file.hash = Some(content.hash);
                return self.convert(number, &content, progress);
            }
            Outcome::Unreadable(error) => file.failure = Some(format!("cannot read the file: {error}")),
            Outcome::Unchanged => {}
        }
        self.store.put_back(number, progress.taken.remove(&number).unwrap_or_default());
    }

    fn convert(&mut self, number: u32, content: &FileContent, progress: &mut Progress) {
        let Some(name) = self.store.file(number).map(|file| file.name.clone()) else { return };
        let defaults = Defaults {
            service_ranges: &self.options.service_ranges,
            node_port_range: &self.options.node_port_range,
            node_name: &self.options.node_name,
        };
        let mut parsed = parse::convert_all(&name, content, defaults, &mut self.names);
        progress.ignored.append(&mut parsed.ignored);
        self.store.fill(number, parsed, &mut progress.taken);
        progress.touched.extend(self.store.defined_by(number));
    }

    /// Updates everything that depends on the touched objects.
    fn update_world(&mut self, progress: &mut Progress) -> bool {
        let taken: Vec<(ObjectId, Object)> = std::mem::take(&mut progress.taken)
            .into_values()
            .flat_map(|taken| taken.definitions)
            .map(|(id, definition)| (id, definition.object))
            .collect();
        progress.touched.extend(taken.iter().map(|(id, _)| id.clone()));
        progress.touched.sort_unstable();
        progress.touched.dedup();
        let changed = self.world.update(&mut self.store, &progress.touched, &taken);
        drop(taken);
        self.names.sweep();
        changed
    }

    fn report(&mut self, ignored: Vec<Ignored>, changed: bool) -> Report {
        let problems = self.problems();
        let is_new = |problem: &&Problem| !self.reported.contains(problem);
        let new_problems = problems.iter().filter(is_new).cloned().collect();
        self.reported = problems.iter().cloned().collect();
        tracing::debug!(problems = problems.len(), ignored = ignored.len(), changed, "read the manifests");
        Report { problems, new_problems, ignored, changed }
    }

    fn problems(&self) -> Vec<Problem> {
        let ranks: BTreeMap<&str, usize> = self.store.files().map(|file| &*file.name).zip(0..).collect();
        let of_files = self.store.files().flat_map(|file| file.problems.iter().cloned());
        let mut problems: Vec<Problem> = of_files.collect();
        problems.extend(self.store.files().filter_map(unreadable));
        problems.extend(self.store.duplicates());
        problems.extend(self.world.problems());
        problems.extend(self.missing.iter().cloned());
        problems.sort_by_key(|problem| (ranks.get(&*problem.file).copied(), problem.line));
        problems
    }
}

fn unreadable(file: &crate::store::File) -> Option<Problem> {
    let reason = file.failure.clone()?;
    Some(Problem { file: file.name.clone(), line: 0, object: None, reason })
}

fn missing(path: &std::path::Path, error: &std::io::Error) -> Problem {
    let file: Arc<str> = path.display().to_string().into();
    Problem { file, line: 0, object: None, reason: format!("cannot list the path: {error}") }
}
