//! A current value, such as the zone, for many readers that never block.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::sync::{AtomicU64, Mutex};
use crate::zone::Zone;

/// Holds the current value. Once `publish` returns, no query is answered from the previous one.
#[derive(Debug)]
pub struct Published<T = Zone> {
    version: AtomicU64,
    value: Mutex<Option<Arc<T>>>,
}

impl<T> Default for Published<T> {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), value: Mutex::new(None) }
    }
}

impl<T> Published<T> {
    pub fn publish(&self, value: Arc<T>) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// `None` until the first is published: the zone of the first complete snapshot.
    pub fn current(&self) -> Option<Arc<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The view of one thread: it compares one version number per query, and takes the lock only if the value has changed.
#[derive(Debug)]
pub(crate) struct Reader<T = Zone> {
    published: Arc<Published<T>>,
    seen: u64,
    value: Option<Arc<T>>,
}

impl<T> Reader<T> {
    pub(crate) fn new(published: Arc<Published<T>>) -> Self {
        Self { published, seen: 0, value: None }
    }

    pub(crate) fn value(&mut self) -> Option<&Arc<T>> {
        let version = self.published.version.load(Ordering::Acquire);
        if version != self.seen {
            self.seen = version;
            self.value = self.published.current();
        }
        self.value.as_ref()
    }
}
