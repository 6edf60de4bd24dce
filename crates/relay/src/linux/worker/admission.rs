//! One limit for all connections and UDP associations, and the shares of Services and clients in it.
//!
//! A share follows what is free: a Service or a client that holds `SHARE` times as many connections as are free gets no
//! more. Alone it holds at most three quarters of the limit; two of them hold less each; and there is always room for
//! a Service and a client that hold none. Without contention no connection is refused.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::load::Held;
use crate::system::tally::{EndpointTally, Tally};

/// How many times the free connections a Service or a client may hold.
const SHARE: usize = 3;

pub(crate) struct Admission {
    limit: usize,
    held: usize,
    by_service: HashMap<Arc<str>, usize>,
    by_client: HashMap<IpAddr, usize>,
    /// Set when a connection ends, until the paused listeners have been resumed.
    pub(super) has_room: bool,
}

/// The admission of one connection. It is given back when the connection has ended.
#[must_use]
pub(crate) struct Seat {
    service: Arc<str>,
    client: IpAddr,
    pub(super) tally: Arc<Tally>,
    /// The endpoint that the connection counts for, once it has one.
    endpoint: Option<(Held, Arc<EndpointTally>)>,
}

impl Seat {
    /// The connection leads to this endpoint from now on.
    pub(super) fn lead_to(&mut self, endpoint: SocketAddr, held: Held) {
        let tally = self.tally.endpoint(endpoint);
        tally.connections.add(1);
        self.endpoint = Some((held, tally));
    }

    pub(super) fn count_from_client(&self, bytes: u64) {
        self.tally.bytes_from_clients.add(bytes);
        self.endpoint.iter().for_each(|(_, tally)| tally.bytes_from_clients.add(bytes));
    }

    pub(super) fn count_to_client(&self, bytes: u64) {
        self.tally.bytes_to_clients.add(bytes);
        self.endpoint.iter().for_each(|(_, tally)| tally.bytes_to_clients.add(bytes));
    }

    pub(super) fn is_of(&self, service: &str) -> bool {
        *self.service == *service
    }
}

impl Admission {
    pub(super) fn new(limit: usize) -> Self {
        Admission { limit, held: 0, by_service: HashMap::new(), by_client: HashMap::new(), has_room: false }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.has_room |= limit > self.limit;
        self.limit = limit;
    }

    pub(super) fn is_full(&self) -> bool {
        self.free() == 0
    }

    /// Whether the Service may have one more connection.
    pub(super) fn allows_service(&self, service: &str) -> bool {
        self.allows(self.by_service.get(service))
    }

    /// Whether the client may have one more connection, through whatever Service.
    pub(super) fn allows_client(&self, client: IpAddr) -> bool {
        self.allows(self.by_client.get(&client))
    }

    fn allows(&self, held: Option<&usize>) -> bool {
        held.copied().unwrap_or(0) < SHARE.saturating_mul(self.free())
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.held)
    }

    pub(super) fn take(&mut self, service: &Arc<str>, client: IpAddr, tally: &Arc<Tally>) -> Seat {
        self.held += 1;
        *self.by_service.entry(Arc::clone(service)).or_default() += 1;
        *self.by_client.entry(client).or_default() += 1;
        Seat { service: Arc::clone(service), client, tally: Arc::clone(tally), endpoint: None }
    }

    pub(super) fn give_back(&mut self, seat: &Seat) {
        self.held -= 1;
        take_one(&mut self.by_service, &seat.service);
        take_one(&mut self.by_client, &seat.client);
        self.has_room = true;
    }
}

/// Removes the entry with its last connection, so that the maps are never larger than the limit.
fn take_one<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    /// Takes as many as it can, and returns them.
    fn fill(admission: &mut Admission, service: &str, client: IpAddr) -> Vec<Seat> {
        let service: Arc<str> = service.into();
        let mut seats = Vec::new();
        while admission.allows_service(&service) && admission.allows_client(client) {
            seats.push(admission.take(&service, client, &Arc::default()));
        }
        seats
    }

    #[test]
    fn one_service_leaves_a_quarter_and_the_next_a_quarter_of_that() {
        let mut admission = Admission::new(1000);
        let first = fill(&mut admission, "a", client(1));
        let second = fill(&mut admission, "b", client(2));
        assert_eq!((first.len(), second.len()), (750, 188));
        assert!(admission.allows_service("c") && admission.allows_client(client(3)));
        assert!(!admission.allows_service("a") && !admission.allows_client(client(1)));
        first.iter().chain(&second).for_each(|seat| admission.give_back(seat));
        assert!(admission.by_client.is_empty() && admission.by_service.is_empty() && admission.held == 0);
    }

    #[test]
    fn a_limit_of_one_serves_one() {
        let mut admission = Admission::new(1);
        let seats = fill(&mut admission, "a", client(1));
        assert_eq!(seats.len(), 1);
        assert!(admission.is_full() && !admission.allows_service("b"));
        admission.give_back(&seats[0]);
        assert!(admission.has_room && admission.allows_service("b"));
    }

    #[test]
    fn a_lower_limit_ends_no_connection() {
        let mut admission = Admission::new(8);
        let seats = fill(&mut admission, "a", client(1));
        admission.set_limit(2);
        assert!(admission.is_full());
        seats.iter().for_each(|seat| admission.give_back(seat));
        assert!(admission.allows_service("a"));
    }
}
