//! The current zone, for many readers that never block.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::zone::Zone;

/// Holds the current zone. Once `publish` returns, no query is answered from the previous zone.
#[derive(Debug, Default)]
pub struct Published {
    version: AtomicU64,
    zone: Mutex<Option<Arc<Zone>>>,
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
