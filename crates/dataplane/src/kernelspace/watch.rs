//! Notices what other programs create and delete: a pod of this node gets an endpoint, or a load balancer is gone.
//!
//! HNS lists identities and nothing else. What an object holds takes two more calls for each of them (open and query), and HNS has
//! no notifications about load balancers. What another program modifies in place is therefore found by the next comparison.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use portolan_hns::{ErrorKind, Guid, Hns};

use crate::Error;
use crate::drift::{ForeignChange, WATCH_INTERVAL, WatchForeignChanges};

/// What HNS held after the last read or write of this process.
#[derive(Default)]
pub(super) struct Known {
    state: Mutex<Option<(BTreeSet<Guid>, Guid)>>,
    /// Odd while this process writes.
    writes: AtomicUsize,
}

pub(super) struct Busy<'a>(&'a Known);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.writes.fetch_add(1, Ordering::AcqRel);
    }
}

impl Known {
    pub(super) fn set(&self, identities: BTreeSet<Guid>, network: Guid) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some((identities, network));
    }

    fn get(&self) -> Option<(BTreeSet<Guid>, Guid)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn busy(&self) -> Busy<'_> {
        self.writes.fetch_add(1, Ordering::AcqRel);
        Busy(self)
    }
}

pub(super) struct Watch {
    hns: Box<dyn Hns>,
    known: Arc<Known>,
    /// What was reported, so that it is reported once.
    reported: Option<BTreeSet<Guid>>,
}

impl Watch {
    pub(super) fn new(hns: Box<dyn Hns>, known: Arc<Known>) -> Self {
        Self { hns, known, reported: None }
    }

    /// One look. While this process writes, what is there says nothing about others.
    fn look(&mut self) -> Result<Option<ForeignChange>, Error> {
        let writes = self.known.writes.load(Ordering::Acquire);
        let Some((known, network)) = self.known.get() else { return Ok(None) };
        let now = match self.hns.identities(network) {
            // Its objects are gone with it.
            Err(error) if error.kind() == ErrorKind::NetworkNotFound => BTreeSet::new(),
            identities => identities?,
        };
        let is_busy = writes % 2 == 1 || self.known.writes.load(Ordering::Acquire) != writes;
        if now == known {
            self.reported = None;
        }
        if is_busy || now == known || self.reported.as_ref() == Some(&now) {
            return Ok(None);
        }
        let (created, deleted) = (now.difference(&known).count(), known.difference(&now).count());
        self.reported = Some(now);
        Ok(Some(format!("HNS: another program has created {created} objects and deleted {deleted}").into()))
    }
}

impl WatchForeignChanges for Watch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        std::thread::sleep(WATCH_INTERVAL);
        self.look()
    }
}

#[cfg(test)]
mod tests {
    use portolan_hns::{Habits, MemoryHns, Network};

    use super::*;

    #[test]
    fn a_new_endpoint_is_reported_once_and_own_writes_are_not() {
        let hns = MemoryHns::new(Habits::default());
        let network = Network { id: Guid::of("network"), name: "cbr0".into(), ..Network::default() };
        hns.add_network(network.clone());
        let known = Arc::new(Known::default());
        known.set(BTreeSet::new(), network.id);
        let mut watch = Watch::new(Box::new(hns.clone()), known.clone());
        assert!(watch.look().unwrap().is_none());
        hns.add_local_endpoint(network.id, "pod", "10.244.1.2".parse().unwrap());
        {
            let _busy = known.busy();
            assert!(watch.look().unwrap().is_none());
        }
        let change = watch.look().unwrap().expect("it is noticed");
        assert_eq!(change.to_string(), "HNS: another program has created 1 objects and deleted 0");
        assert!(watch.look().unwrap().is_none());
        // What was repaired can happen again.
        hns.remove_local_endpoint("10.244.1.2".parse().unwrap());
        assert!(watch.look().unwrap().is_none());
        hns.add_local_endpoint(network.id, "pod", "10.244.1.3".parse().unwrap());
        assert!(watch.look().unwrap().is_some());
        hns.remove_local_endpoint("10.244.1.3".parse().unwrap());
        assert!(watch.look().unwrap().is_none());
    }
}
