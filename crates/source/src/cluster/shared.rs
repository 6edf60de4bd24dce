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
}

impl Shared {
    pub(super) fn new(tuning: Tuning, access: Access, facts: Facts, notify: Box<dyn Fn() + Send + Sync>) -> Self {
        let now = SystemTime::now();
        let connection = Connection { connected: false, since: now, last_error: None };
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

    pub(super) fn watches(&self) -> Vec<WatchState> {
        let connections = self.connections();
        let state = |(resource, connection): (Resource, &Connection)| WatchState {
            what: resource.what(),
            connected: connection.connected,
            since: connection.since,
            complete: self.facts().is_complete(resource),
            last_error: connection.last_error.clone(),
        };
        let wanted = self.facts().wanted();
        wanted.iter().copied().zip(connections.iter()).map(state).collect()
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
        *connection = Connection { connected: false, since, last_error: Some(reason.to_owned()) };
    }

    fn connections(&self) -> MutexGuard<'_, [Connection; Resource::ALL.len()]> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
