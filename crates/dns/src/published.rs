//! The current zone, for many readers that never block.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::sync::{AtomicU64, Mutex};
use crate::zone::Zone;

/// Holds the current zone. Once `publish` returns, no query is answered from the previous zone.
#[derive(Debug)]
pub struct Published {
    version: AtomicU64,
    zone: Mutex<Option<Arc<Zone>>>,
}

impl Default for Published {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), zone: Mutex::new(None) }
    }
}

impl Published {
    pub fn publish(&self, zone: Arc<Zone>) {
        *self.zone.lock().unwrap_or_else(PoisonError::into_inner) = Some(zone);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// `None` until the first complete snapshot.
    pub fn current(&self) -> Option<Arc<Zone>> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The view of one thread: it compares one version number per query, and takes the lock only if the zone has changed.
#[derive(Debug)]
pub(crate) struct Reader {
    published: Arc<Published>,
    seen: u64,
    zone: Option<Arc<Zone>>,
}

impl Reader {
    pub(crate) fn new(published: Arc<Published>) -> Self {
        Self { published, seen: 0, zone: None }
    }

    pub(crate) fn zone(&mut self) -> Option<&Arc<Zone>> {
        let version = self.published.version.load(Ordering::Acquire);
        if version != self.seen {
            self.seen = version;
            self.zone = self.published.current();
        }
        self.zone.as_ref()
    }
}
