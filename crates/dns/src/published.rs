//! The zone in force, for many readers that never wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::zone::Zone;

/// Where the zone is put. From the moment that this returns, nobody is answered from the one before.
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

    /// `None` until everything has been known once.
    pub fn current(&self) -> Option<Arc<Zone>> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One thread's view: it looks at one number for each question, and takes the zone only when there is a new one.
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
