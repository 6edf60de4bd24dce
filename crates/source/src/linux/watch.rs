//! Watching for changes of manifest files with inotify.
//!
//! Directories are watched, not files: an editor replaces a file, and the mount of a ConfigMap swaps the symbolic link
//! `..data`. After every event the watches are updated before the files are read, so that a directory that was replaced or
//! created is not missed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::files::is_manifest;

/// A burst of events is over after this long without one.
const QUIET: Duration = Duration::from_millis(3);
/// A burst that does not end is cut off after this long.
const LONGEST_BURST: Duration = Duration::from_millis(500);

/// Watches the files of some paths.
#[derive(Debug)]
pub struct Watcher {
    inotify: OwnedFd,
    paths: Vec<PathBuf>,
    watches: HashMap<i32, Interest>,
}

/// The relevant entries of a directory.
#[derive(Debug, Default)]
struct Interest {
    names: HashSet<OsString>,
    manifests: bool,
}

impl Interest {
    fn includes(&self, name: &OsStr) -> bool {
        let swap = name.as_encoded_bytes().starts_with(b"..");
        swap || self.names.contains(name) || self.manifests && is_manifest(Path::new(name))
    }
}

impl Watcher {
    /// Starts watching. Must come before the first reload, so that no change falls between the two.
    pub fn new(paths: &[PathBuf]) -> Result<Self, Error> {
        let inotify =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| Error::Start(error.into()))?;
        let paths = paths.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())).collect();
        let mut watcher = Self { inotify, paths, watches: HashMap::new() };
        watcher.arm()?;
        Ok(watcher)
    }

    /// Waits until files may have changed and the burst of changes is over. Returns false after the timeout.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !self.poll(left)? {
                return Ok(false);
            }
            if self.drain()? {
                self.await_end_of_burst()?;
                return Ok(true);
            }
        }
    }

    fn await_end_of_burst(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        self.arm()?;
        while start.elapsed() < LONGEST_BURST && self.poll(Some(QUIET))? {
            self.drain()?;
            self.arm()?;
        }
        Ok(())
    }

    fn poll(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(Error::Wait(error.into())),
        }
    }

    /// Reads all pending events. Returns whether one of them is relevant.
    fn drain(&self) -> Result<bool, Error> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut is_relevant = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    is_relevant |= self.is_relevant(event.wd(), name);
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(is_relevant),
                Err(error) => return Err(Error::Wait(error.into())),
            }
        }
    }

    /// An event without a name is about the directory itself, or an overflow of the queue.
    fn is_relevant(&self, watch: i32, name: Option<&OsStr>) -> bool {
        match (self.watches.get(&watch), name) {
            (Some(interest), Some(name)) => interest.includes(name),
            (Some(_), None) => true,
            (None, _) => watch < 0,
        }
    }

    /// Adds the watches that the paths need and removes the others.
    fn arm(&mut self) -> Result<(), Error> {
        let mut watches: HashMap<i32, Interest> = HashMap::new();
        for (directory, interest) in wanted(&self.paths) {
            let Some(watch) = self.add(&directory)? else { continue };
            let known = watches.entry(watch).or_default();
            known.manifests |= interest.manifests;
            known.names.extend(interest.names);
        }
        for stale in self.watches.keys().filter(|watch| !watches.contains_key(watch)) {
            // This fails if the directory is gone: the kernel has removed the watch already.
            let _ = inotify::remove_watch(&self.inotify, *stale);
        }
        self.watches = watches;
        Ok(())
    }

    fn add(&self, directory: &Path) -> Result<Option<i32>, Error> {
        let content = WatchFlags::CLOSE_WRITE | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ATTRIB;
        let moves = WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.inotify, directory, content | moves | itself) {
            Ok(watch) => Ok(Some(watch)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(Error::Watch { path: directory.to_owned(), source: error.into() }),
        }
    }
}

/// The directories to watch, and what is relevant in each.
fn wanted(paths: &[PathBuf]) -> BTreeMap<PathBuf, Interest> {
    let mut wanted = BTreeMap::new();
    for path in paths {
        want_entry(path, &mut wanted);
        want_target(path, &mut wanted);
        if path.is_dir() {
            wanted.entry(path.clone()).or_default().manifests = true;
            links(path).for_each(|link| want_target(&link, &mut wanted));
        }
    }
    wanted
}

/// The entry of a path in its nearest existing ancestor directory.
fn want_entry(path: &Path, wanted: &mut BTreeMap<PathBuf, Interest>) {
    let mut ancestors = path.ancestors().zip(path.ancestors().skip(1));
    if let Some((child, parent)) = ancestors.find(|(_, parent)| parent.is_dir()) {
        let name = child.file_name().unwrap_or_default().to_owned();
        wanted.entry(parent.to_owned()).or_default().names.insert(name);
    }
}

/// A symbolic link changes with its target.
fn want_target(link: &Path, wanted: &mut BTreeMap<PathBuf, Interest>) {
    if let Ok(target) = std::fs::canonicalize(link) {
        want_entry(&target, wanted);
    }
}

fn links(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.map(|entry| entry.path()).filter(|path| is_manifest(path))
}
