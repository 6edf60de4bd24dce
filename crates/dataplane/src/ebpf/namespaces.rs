//! The network namespaces of pods, which a thread visits: it ends their connected UDP sockets whose endpoint is gone, and sees
//! whether their traffic is redirected inside of them, as by a service mesh. The hooks leave to the rules what needs either.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use portolan_kernel::bpf::{SocketIterator, network_namespace_cookie};
use portolan_kernel::fd::AsFd;
use portolan_kernel::files::identity;
use portolan_kernel::{enter_network_namespace, open_network_namespace};

use super::hooks::Maps;
use super::pins::failure;
use super::redirect;
use crate::Error;

/// How often the folder is read.
const LOOK: Duration = Duration::from_secs(1);
/// Meshes set up a pod when it starts: a namespace is visited each time while it is young, and seldom later.
const YOUNG: Duration = Duration::from_secs(60);
const VISIT: Duration = Duration::from_secs(15);
/// As many entries of the folder are looked at, so that a folder of other files costs a bounded time. The map has room for as many.
const MOST: usize = 4096;
/// A hook that has read its frontend before it changed has stored its translation by then.
const SETTLED: Duration = Duration::from_millis(100);

/// The map that the hooks read, by the cookie of the namespace.
const MAP: &str = "namespaces";
const CAN_END: u32 = 1;
const APART: u32 = 2;

/// The thread, which ends with this value.
pub(super) struct Namespaces(Sender<()>);

impl Namespaces {
    /// For the network namespace of the calling thread, which is the node's, and those in the folder.
    pub(super) fn start(folder: &str, maps: Arc<Maps>, ending: Option<SocketIterator>) -> Result<Self, Error> {
        let (sender, requests) = channel();
        let home = open(Path::new("/proc/thread-self/ns/net"))?;
        let folder = (!folder.is_empty()).then(|| PathBuf::from(folder));
        let (node, known, refused) = (network_namespace_cookie()?, BTreeMap::new(), BTreeMap::new());
        let visitor = Visitor { folder, maps, ending, home, node, known, refused };
        let spawned = thread::Builder::new().name("namespaces".into()).spawn(move || visitor.run(&requests));
        spawned.map_err(|error| failure("starting a thread for the network namespaces of pods", error))?;
        Ok(Self(sender))
    }

    /// After endpoints of UDP have changed.
    pub(super) fn end_sockets(&self) {
        _ = self.0.send(());
    }
}

struct Visitor {
    /// `None` if namespaces cannot be entered.
    folder: Option<PathBuf>,
    maps: Arc<Maps>,
    ending: Option<SocketIterator>,
    home: File,
    /// The cookie of the node's namespace.
    node: u64,
    known: BTreeMap<Identity, Known>,
    /// Files that are no namespaces, and when they were tried.
    refused: BTreeMap<Identity, Instant>,
}

/// The device and the number of the namespace's file.
type Identity = (u64, u64);

struct Known {
    path: PathBuf,
    cookie: u64,
    since: Instant,
    visited: Instant,
}

impl Known {
    fn is_due(&self, now: Instant) -> bool {
        now.duration_since(self.since) < YOUNG || now.duration_since(self.visited) >= VISIT
    }
}

impl Visitor {
    fn run(mut self, requests: &Receiver<()>) {
        self.note(self.node, false);
        self.check_entering();
        self.look();
        self.forget_unknown();
        self.end_sockets();
        let mut looked = Instant::now();
        loop {
            // Before requests: no rate of changes keeps new namespaces waiting.
            if looked.elapsed() >= LOOK {
                self.look();
                looked = Instant::now();
            }
            match requests.recv_timeout(LOOK.saturating_sub(looked.elapsed())) {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => self.end_sockets_twice(requests),
            }
        }
    }

    /// Entries of an earlier daemon: namespaces that are gone, and those that this daemon cannot enter.
    fn forget_unknown(&self) {
        let entries = self.maps.get(MAP).and_then(|map| map.entries().ok());
        let known = |cookie: u64| cookie == self.node || self.known.values().any(|known| known.cookie == cookie);
        for (key, _) in entries.iter().flat_map(|entries| entries.iter()) {
            let cookie = key.first_chunk().copied().map(u64::from_ne_bytes);
            cookie.filter(|cookie| !known(*cookie)).into_iter().for_each(|cookie| _ = forget(&self.maps, cookie));
        }
    }

    /// Entering the own namespace needs the same capability as entering another one.
    fn check_entering(&mut self) {
        if let Err(error) = enter(&self.home, Path::new("network namespaces")) {
            tracing::info!(
                "the rules serve connected UDP sockets of pods, and redirects inside of pods are not recognized: {error} \
                 (needs CAP_SYS_ADMIN)"
            );
            self.folder = None;
        }
    }

    /// Requests that arrive meanwhile are served by the second round.
    fn end_sockets_twice(&self, requests: &Receiver<()>) {
        self.end_sockets();
        thread::sleep(SETTLED);
        while requests.try_recv().is_ok() {}
        self.end_sockets();
    }

    fn end_sockets(&self) {
        let Some(ending) = &self.ending else { return };
        let mut ended = self.end_with(ending, None);
        for known in self.known.values() {
            ended += self.end_with(ending, Some(&known.path));
        }
        if ended > 0 {
            tracing::info!("ended {ended} connected UDP sockets whose endpoint is gone");
        }
    }

    fn end_with(&self, ending: &SocketIterator, namespace: Option<&Path>) -> usize {
        let run = || Ok(ending.run()?.len());
        let ended = namespace.map_or_else(run, |path| self.within(path, run));
        ended.unwrap_or_else(|error| {
            // A pod that was deleted meanwhile is no error.
            if namespace.is_none_or(Path::exists) {
                tracing::warn!("UDP sockets of endpoints that are gone stay: {error}");
            }
            0
        })
    }

    /// Namespaces that are new, those that may have changed, and those that are gone.
    fn look(&mut self) {
        let Some(folder) = &self.folder else { return };
        let found = namespaces_in(folder);
        let maps = self.maps.clone();
        self.known.retain(|identity, known| found.contains_key(identity) || forget(&maps, known.cookie));
        self.refused.retain(|identity, _| found.contains_key(identity));
        let now = Instant::now();
        for (identity, path) in found {
            if self.is_due(&identity, now) {
                self.visit(identity, path, now);
            }
        }
    }

    fn is_due(&self, identity: &Identity, now: Instant) -> bool {
        let was_refused = |tried: &Instant| now.duration_since(*tried) < VISIT;
        match self.known.get(identity) {
            Some(known) => known.is_due(now),
            None => !self.refused.get(identity).is_some_and(was_refused),
        }
    }

    fn visit(&mut self, identity: Identity, path: PathBuf, now: Instant) {
        let mut is_namespace = false;
        let look = || {
            is_namespace = true;
            Ok((network_namespace_cookie()?, redirect::exists()?))
        };
        let seen = self.within(&path, look);
        match seen {
            // The node's own rules redirect.
            Ok((cookie, _)) if cookie == self.node => {}
            Ok((cookie, is_redirected)) => {
                self.note(cookie, is_redirected);
                let known = self.known.entry(identity).or_insert(Known { path, cookie, since: now, visited: now });
                known.visited = now;
            }
            // Not the file of a namespace, or one of a pod that was deleted meanwhile.
            Err(error) => {
                tracing::debug!("{error}");
                if !is_namespace {
                    self.refused.insert(identity, now);
                }
            }
        }
    }

    fn note(&self, cookie: u64, is_redirected: bool) {
        let can_end = if self.ending.is_some() { CAN_END } else { 0 };
        let facts = can_end | if is_redirected { APART } else { 0 };
        let written = self.maps.get(MAP).map(|map| map.update(&cookie.to_ne_bytes(), &facts.to_ne_bytes()));
        if let Some(Err(error)) = written {
            tracing::warn!("the rules serve connected UDP sockets of a pod: {error}");
        }
    }

    /// Runs in another network namespace and returns from it.
    fn within<T>(&self, path: &Path, job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        enter(&open(path)?, path)?;
        let done = job();
        enter(&self.home, Path::new("the node's network namespace"))?;
        done
    }
}

fn forget(maps: &Maps, cookie: u64) -> bool {
    if let Some(Err(error)) = maps.get(MAP).map(|map| map.delete(&cookie.to_ne_bytes())) {
        tracing::warn!("{error}");
    }
    false
}

/// The file of a namespace is a regular one; nothing else is opened.
fn namespaces_in(folder: &Path) -> BTreeMap<Identity, PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST).map(|entry| entry.path());
    let identified = files.filter_map(|path| {
        let file = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some((identity(&file), path))
    });
    identified.collect()
}

fn open(path: &Path) -> Result<File, Error> {
    open_network_namespace(path).map_err(|error| failure(format!("opening {}", path.display()), error))
}

fn enter(namespace: &File, path: &Path) -> Result<(), Error> {
    let attempted = || format!("entering {}", path.display());
    enter_network_namespace(namespace.as_fd()).map_err(|error| failure(attempted(), error))
}
