//! Session affinity: which client has which endpoint. The sources of datagrams can be forged, so that the number of
//! clients is bounded: a listener at its share replaces its oldest entry.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Entries of all listeners together: about 20 MB.
const MAX_ENTRIES: usize = 131_072;

/// A listener may hold this many times the free entries, as for connections.
const SHARE: usize = 3;

/// The number of entries of all listeners. One thread uses it.
#[derive(Clone, Default)]
pub(crate) struct AffinityBudget(Arc<AtomicUsize>);

impl AffinityBudget {
    fn allows(&self, held: usize) -> bool {
        let free = MAX_ENTRIES.saturating_sub(self.0.load(Ordering::Relaxed));
        held < SHARE * free
    }

    fn take_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn give_back(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The clients of one listener.
#[derive(Default)]
pub(crate) struct Affinity {
    budget: AffinityBudget,
    clients: HashMap<IpAddr, Entry>,
    by_end: BTreeSet<(Instant, IpAddr)>,
}

struct Entry {
    endpoint: SocketAddr,
    until: Instant,
}

impl Affinity {
    pub(crate) fn new(budget: AffinityBudget) -> Self {
        Affinity { budget, clients: HashMap::new(), by_end: BTreeSet::new() }
    }

    /// The endpoint of the client, while its entry lasts.
    pub(crate) fn endpoint(&self, client: IpAddr, now: Instant) -> Option<SocketAddr> {
        self.clients.get(&client).filter(|entry| now < entry.until).map(|entry| entry.endpoint)
    }

    pub(crate) fn set(&mut self, client: IpAddr, endpoint: SocketAddr, until: Instant) {
        self.remove(client);
        if !self.budget.allows(self.clients.len())
            && let Some((_, oldest)) = self.by_end.first().copied()
        {
            self.remove(oldest);
        }
        if self.budget.allows(self.clients.len()) {
            self.budget.take_one();
            self.clients.insert(client, Entry { endpoint, until });
            self.by_end.insert((until, client));
        }
    }

    fn remove(&mut self, client: IpAddr) {
        if let Some(entry) = self.clients.remove(&client) {
            self.by_end.remove(&(entry.until, client));
            self.budget.give_back(1);
        }
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some((_, client)) = self.by_end.first().copied().filter(|(until, _)| *until <= now) {
            self.remove(client);
        }
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(SocketAddr) -> bool) {
        let gone = self.clients.iter().filter(|(_, entry)| !is_kept(entry.endpoint));
        let gone: Vec<IpAddr> = gone.map(|(client, _)| *client).collect();
        gone.into_iter().for_each(|client| self.remove(client));
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        self.budget.give_back(self.clients.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn forged_clients_replace_each_other_and_no_client_of_another_listener() {
        let (budget, now) = (AffinityBudget::default(), Instant::now());
        let (mut flooded, mut other) = (Affinity::new(budget.clone()), Affinity::new(budget.clone()));
        let endpoint: SocketAddr = "10.0.0.1:80".parse().unwrap();
        let until = now + Duration::from_secs(10_800);
        other.set(client(1), endpoint, until);
        for number in 0..2 * MAX_ENTRIES as u32 {
            flooded.set(client(number), endpoint, until + Duration::from_nanos(number.into()));
        }
        assert_eq!(flooded.clients.len(), flooded.by_end.len());
        assert!(flooded.clients.len() <= MAX_ENTRIES * 3 / 4, "{}", flooded.clients.len());
        assert!(flooded.endpoint(client(2 * MAX_ENTRIES as u32 - 1), now).is_some(), "the newest is kept");
        assert_eq!(flooded.endpoint(client(0), now), None, "the oldest is gone");
        assert_eq!(other.endpoint(client(1), now), Some(endpoint));
        other.set(client(2), endpoint, until);
        assert_eq!(other.clients.len(), 2);
        drop((flooded, other));
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn entries_expire_and_are_renewed() {
        let (mut affinity, now) = (Affinity::default(), Instant::now());
        let endpoint: SocketAddr = "10.0.0.1:80".parse().unwrap();
        affinity.set(client(1), endpoint, now + Duration::from_secs(1));
        affinity.set(client(1), endpoint, now + Duration::from_secs(5));
        affinity.set(client(2), endpoint, now + Duration::from_secs(2));
        affinity.expire(now + Duration::from_secs(3));
        assert_eq!((affinity.clients.len(), affinity.by_end.len()), (1, 1));
        affinity.retain(|_| false);
        assert!(affinity.clients.is_empty() && affinity.by_end.is_empty());
    }
}
