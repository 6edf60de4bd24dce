//! The open TCP connections of all clients. When there are too many, the idlest connection of the client with most of
//! them makes room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::task::AbortHandle;

/// Concurrent connections: in total, and of one client.
const MAX_CONNECTIONS: usize = 1000;
const MAX_OF_CLIENT: usize = MAX_CONNECTIONS / 4;

#[derive(Debug)]
pub(super) struct Connections {
    start: Instant,
    open: Mutex<HashMap<u64, Entry>>,
    next: AtomicU64,
    evicted: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Entry {
    client: IpAddr,
    activity: Arc<Activity>,
    task: Option<AbortHandle>,
}

/// When a connection was last used, and how many of its queries wait for an upstream.
#[derive(Debug, Default)]
struct Activity {
    last: AtomicU64,
    waiting: AtomicUsize,
}

/// An open connection. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    activity: Arc<Activity>,
    pub(super) number: u64,
}

impl Connections {
    /// Counts the connections that made room.
    pub(super) fn new(evicted: Arc<AtomicU64>) -> Self {
        Self { start: Instant::now(), open: Mutex::default(), next: AtomicU64::new(0), evicted }
    }

    /// A place for a new connection, which always gets one.
    pub(super) fn admit(self: &Arc<Self>, client: IpAddr) -> Place {
        let mut open = self.lock();
        let own = open.values().filter(|entry| entry.client == client).count();
        if own >= MAX_OF_CLIENT {
            self.evict(&mut open, client);
        } else if open.len() >= MAX_CONNECTIONS {
            self.evict_of_busiest(&mut open);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let activity = Arc::new(Activity::default());
        let place = Place { connections: self.clone(), activity: activity.clone(), number };
        place.touch(0);
        open.insert(number, Entry { client, activity, task: None });
        place
    }

    /// The task to end if the connection must make room.
    pub(super) fn attach(&self, number: u64, task: AbortHandle) {
        if let Some(entry) = self.lock().get_mut(&number) {
            entry.task = Some(task);
        }
    }

    /// Closes a connection, because the process is out of descriptors.
    pub(super) fn make_room(&self) {
        let mut open = self.lock();
        self.evict_of_busiest(&mut open);
    }

    fn evict_of_busiest(&self, open: &mut HashMap<u64, Entry>) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        open.values().for_each(|entry| *counts.entry(entry.client).or_default() += 1);
        if let Some((client, _)) = counts.into_iter().max_by_key(|(_, count)| *count) {
            self.evict(open, client);
        }
    }

    /// The idlest: without waiting queries first, and unused for longest.
    fn evict(&self, open: &mut HashMap<u64, Entry>, client: IpAddr) {
        let own = open.iter().filter(|(_, entry)| entry.client == client);
        let Some((number, _)) = own.min_by_key(|(_, entry)| entry.activity.rank()) else { return };
        let number = *number;
        if let Some(task) = open.remove(&number).and_then(|entry| entry.task) {
            task.abort();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Activity {
    fn rank(&self) -> (bool, u64) {
        (self.waiting.load(Ordering::Relaxed) > 0, self.last.load(Ordering::Relaxed))
    }
}

impl Place {
    /// The connection was used just now, and so many of its queries wait.
    pub(super) fn touch(&self, waiting: usize) {
        let now = self.connections.start.elapsed().as_micros() as u64;
        self.activity.last.store(now, Ordering::Relaxed);
        self.activity.waiting.store(waiting, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.number);
    }
}
