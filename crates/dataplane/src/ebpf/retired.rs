//! Entries of pools that no frontend names any more. A hook that has read its frontend before it changed still looks up its
//! pool, so that the entries are deleted a grace period later, by a thread that nothing waits for.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::hooks::Maps;
use super::objects::MapName;
use crate::Error;

/// A hook that has found its frontend uses the pool within this time.
const GRACE_PERIOD: Duration = Duration::from_millis(1);

pub(super) struct Retired {
    entries: Entries,
    wake: Sender<()>,
}

#[derive(Clone)]
struct Entries {
    maps: Arc<Maps>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The keys, and since when nothing refers to them.
type Waiting = BTreeMap<(MapName, Vec<u8>), Instant>;

impl Retired {
    /// The thread ends with this value.
    pub(super) fn new(maps: Arc<Maps>) -> Self {
        let (wake, woken) = channel();
        let entries = Entries { maps, waiting: Arc::default() };
        let deleted = entries.clone();
        let delete = move || {
            while woken.recv().is_ok() {
                thread::sleep(GRACE_PERIOD);
                if let Err(error) = deleted.delete_until(Instant::now() - GRACE_PERIOD) {
                    tracing::warn!("entries of old pools stay until the next comparison: {error}");
                }
            }
        };
        // Without the thread, the next comparison deletes them.
        _ = thread::Builder::new().name("old pools".into()).spawn(delete);
        Self { entries, wake }
    }

    pub(super) fn add(&self, map: MapName, keys: Vec<Vec<u8>>) {
        if keys.is_empty() {
            return;
        }
        let now = Instant::now();
        self.entries.waiting().extend(keys.into_iter().map(|key| ((map, key), now)));
        _ = self.wake.send(());
    }

    /// These entries are written again, with the same values.
    pub(super) fn keep<'a>(&self, map: MapName, keys: impl Iterator<Item = &'a Vec<u8>>) {
        let mut waiting = self.entries.waiting();
        if !waiting.is_empty() {
            keys.for_each(|key| _ = waiting.remove(&(map, key.clone())));
        }
    }

    /// Deletes all of them: before the maps are read, and where they have no room left.
    pub(super) fn finish(&self) -> Result<(), Error> {
        if self.entries.waiting().is_empty() {
            return Ok(());
        }
        thread::sleep(GRACE_PERIOD);
        self.entries.delete_until(Instant::now())
    }
}

impl Entries {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock is held: an entry that is kept meanwhile is not deleted after it was written again.
    fn delete_until(&self, latest: Instant) -> Result<(), Error> {
        let mut waiting = self.waiting();
        let due: Vec<(MapName, Vec<u8>)> =
            waiting.iter().filter(|(_, since)| **since <= latest).map(|(entry, _)| entry.clone()).collect();
        due.iter().for_each(|entry| _ = waiting.remove(entry));
        for map in MapName::ALL {
            let keys = due.iter().filter(|(of, _)| *of == map).map(|(_, key)| key.as_slice());
            if let Some(map) = self.maps.get(map.name()) {
                map.delete_batch(keys)?;
            }
        }
        Ok(())
    }
}
