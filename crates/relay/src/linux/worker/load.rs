//! How many connections and dials of the relay each endpoint has.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Load {
    /// Each connection holds a reference.
    endpoints: HashMap<SocketAddr, Arc<()>>,
}

/// A connection to an endpoint, or a dial. It counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "its references are counted")] Arc<()>);

impl Load {
    pub(crate) fn hold(&mut self, endpoint: SocketAddr) -> Held {
        Held(Arc::clone(self.endpoints.entry(endpoint).or_default()))
    }

    pub(crate) fn of(&self, endpoint: SocketAddr) -> usize {
        self.endpoints.get(&endpoint).map_or(0, |held| Arc::strong_count(held) - 1)
    }

    /// Forgets endpoints without connections.
    pub(crate) fn expire(&mut self) {
        self.endpoints.retain(|_, held| Arc::strong_count(held) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let (mut load, endpoint) = (Load::default(), "10.0.0.1:80".parse().unwrap());
        let held = [load.hold(endpoint), load.hold(endpoint)];
        assert_eq!(load.of(endpoint), 2);
        drop(held);
        assert_eq!(load.of(endpoint), 0);
        load.expire();
        assert!(load.endpoints.is_empty());
    }
}
