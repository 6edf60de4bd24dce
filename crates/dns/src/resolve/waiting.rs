//! The queries that wait for an upstream. Their number is bounded, and shared fairly between clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Admits queries before they cost a task or a socket.
#[derive(Debug)]
pub(crate) struct Waiting {
    limit: usize,
    held: Mutex<Held>,
}

/// Slots in use: of all clients, and of each.
#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// Why a query is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All slots are in use.
    Full,
    /// The client holds its share.
    Share,
}

/// Held by a waiting query, and by the upstream query that it caused. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    waiting: Arc<Waiting>,
    client: IpAddr,
}

impl Waiting {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, held: Mutex::default() }
    }

    /// A client may hold as many slots as are free: half of them if it is alone, a third each if there are two, and so
    /// on. So there is always a free slot for another client.
    pub(crate) fn admit(self: &Arc<Self>, client: IpAddr) -> Result<Arc<Slot>, Refusal> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.limit.saturating_sub(held.total);
        match held.by_client.get(&client) {
            _ if free == 0 => return Err(Refusal::Full),
            Some(own) if *own >= free => return Err(Refusal::Share),
            _ => {}
        }
        held.total += 1;
        *held.by_client.entry(client).or_default() += 1;
        Ok(Arc::new(Slot { waiting: self.clone(), client }))
    }

    pub(crate) fn count(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.waiting.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.total -= 1;
        if let Some(own) = held.by_client.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(waiting: &Arc<Waiting>, client: u8, slots: &mut Vec<Arc<Slot>>) -> (usize, Option<Refusal>) {
        let before = slots.len();
        let client = IpAddr::from([192, 0, 2, client]);
        loop {
            match waiting.admit(client) {
                Ok(slot) => slots.push(slot),
                Err(refusal) => return (slots.len() - before, Some(refusal)),
            }
        }
    }

    #[test]
    fn a_flood_leaves_slots_for_other_clients() {
        let waiting = Arc::new(Waiting::new(1000));
        let mut slots = Vec::new();
        assert_eq!(take(&waiting, 1, &mut slots), (500, Some(Refusal::Share)));
        assert_eq!(take(&waiting, 2, &mut slots), (250, Some(Refusal::Share)));
        assert_eq!(take(&waiting, 3, &mut slots), (125, Some(Refusal::Share)));
        for client in 4..=254 {
            take(&waiting, client, &mut slots);
        }
        assert!(slots.len() <= 1000 && waiting.count() == slots.len());
        drop(slots);
        assert_eq!(waiting.count(), 0);
        assert!(waiting.held.lock().unwrap().by_client.is_empty());
    }

    #[test]
    fn a_single_slot_can_be_used() {
        let waiting = Arc::new(Waiting::new(1));
        let mut slots = Vec::new();
        assert_eq!(take(&waiting, 1, &mut slots), (1, Some(Refusal::Full)));
    }
}
