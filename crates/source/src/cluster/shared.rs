//! The state that the watches share with each other and with the public API.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::access::Access;
use super::facts::{Facts, Listing};
use super::resource::Resource;
use super::state::WatchState;
use super::tuning::Tuning;

pub(super) struct Shared {
    pub(super) tuning: Tuning,
    pub(super) access: Access,
    pub(super) notify: Box<dyn Fn() + Send + Sync>,
    facts: Mutex<Facts>,
    connections: Mutex<[Connection; Resource::ALL.len()]>,
}

#[derive(Clone, Debug)]
struct Connection {
    connected: bool,
    since: SystemTime,
    last_error: Option<String>,
    /// How often the task of the watch has panicked.
    panics: u64,
    /// Whether it has panicked and not listed the resource since.
    is_down: bool,
}

impl Shared {
    pub(super) fn new(tuning: Tuning, access: Access, facts: Facts, notify: Box<dyn Fn() + Send + Sync>) -> Self {
        let now = SystemTime::now();
        let connection = Connection { connected: false, since: now, last_error: None, panics: 0, is_down: false };
        Self {
            tuning,
            access,
            notify,
            facts: Mutex::new(facts),
            connections: Mutex::new(std::array::from_fn(|_| connection.clone())),
        }
    }

    /// Locked for a batch of events, never across an await. A panic under the lock leaves the facts consistent: every
    /// object is one insertion.
    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn replace(&self, resource: Resource, listing: Listing, now: Instant) {
        let mut facts = self.facts();
        facts.replace(resource, listing, now);
        let has_changed = facts.finish();
        drop(facts);
        if has_changed {
            (self.notify)();
        }
    }

    /// The facts are read first, and let go: a watch that completes its list holds them while it takes the connections.
    pub(super) fn watches(&self) -> Vec<WatchState> {
        let resources: Vec<(Resource, bool)> = {
            let facts = self.facts();
            facts.wanted().iter().map(|resource| (*resource, facts.is_complete(*resource))).collect()
        };
        let connections = self.connections();
        let state = |(resource, complete): (Resource, bool)| {
            let connection = &connections[resource as usize];
            WatchState {
                what: resource.what(),
                connected: connection.connected,
                since: connection.since,
                complete,
                last_error: connection.last_error.clone(),
                panics: connection.panics,
                is_down: connection.is_down,
            }
        };
        resources.into_iter().map(state).collect()
    }

    pub(super) fn connected(&self, resource: Resource) {
        let mut connections = self.connections();
        let connection = &mut connections[resource as usize];
        if !connection.connected {
            *connection = Connection { connected: true, since: SystemTime::now(), ..connection.clone() };
            tracing::debug!("{}: watching", resource.what());
        }
    }

    /// The server closed the watch, which is opened again at once: the watch still counts as connected.
    pub(super) fn renewing(&self, resource: Resource) {
        tracing::debug!("{}: the watch ended, opening it again", resource.what());
    }

    pub(super) fn failed(&self, resource: Resource, reason: &str, pause: Duration) {
        tracing::warn!("cannot watch {}: {reason}; retrying in {pause:.1?}", resource.what());
        self.disconnected(resource, reason);
    }

    /// The server does not have the resource: it counts as an empty list.
    pub(super) fn absent(&self, resource: Resource, reason: &str) {
        if self.connections()[resource as usize].last_error.as_deref() != Some(reason) {
            tracing::info!("continuing without {}: {reason}", resource.what());
        }
        self.disconnected(resource, reason);
        self.replace(resource, Listing::default(), Instant::now());
    }

    fn disconnected(&self, resource: Resource, reason: &str) {
        let mut connections = self.connections();
        let connection = &mut connections[resource as usize];
        let since = if connection.connected { SystemTime::now() } else { connection.since };
        let last_error = Some(reason.to_owned());
        *connection = Connection { connected: false, since, last_error, ..connection.clone() };
    }

    /// The task of the watch has panicked, and is started again.
    pub(super) fn panicked(&self, resource: Resource, pause: Duration) {
        tracing::error!("the watch of {} has panicked; starting it again in {pause:.1?}", resource.what());
        self.disconnected(resource, "the watch has panicked");
        let connection = &mut self.connections()[resource as usize];
        (connection.panics, connection.is_down) = (connection.panics + 1, true);
    }

    /// The resource has been listed.
    pub(super) fn listed(&self, resource: Resource) {
        self.connections()[resource as usize].is_down = false;
    }

    fn connections(&self) -> MutexGuard<'_, [Connection; Resource::ALL.len()]> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::cluster::fuzz;

    /// A list that is complete while another thread looks at the watches: neither waits for the other for ever.
    #[test]
    fn looking_at_the_watches_never_blocks_a_list() {
        let shared = fuzz::shared();
        let (done, is_done) = channel();
        let reader = Arc::clone(&shared);
        for work in [
            Box::new(move || _ = reader.watches()) as Box<dyn Fn() + Send>,
            Box::new(move || {
                let facts = shared.facts();
                shared.listed(Resource::Services);
                drop(facts);
            }),
        ] {
            let done = done.clone();
            thread::spawn(move || {
                (0..100_000).for_each(|_| work());
                done.send(()).expect("the test waits");
            });
        }
        for _ in 0..2 {
            is_done.recv_timeout(Duration::from_secs(60)).expect("the threads block each other");
        }
    }
}
