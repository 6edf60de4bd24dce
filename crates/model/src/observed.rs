//! What this node observed about the endpoints of a Service: facts, as the objects of the API are.

use std::net::SocketAddr;

/// Sorted by address. Endpoints without an entry are as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed(Box<[(SocketAddr, Observation)]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// How much of its weight counts, in thousandths, while it is new.
    pub warmth: u16,
    /// How much of its weight counts, in thousandths, because of the connections that it has.
    pub room: u16,
    /// It does not answer. A lower rank is the stronger case: where not all of them can be left out, those with the lowest
    /// ranks are.
    pub silent: Option<u32>,
}

impl Observation {
    pub const WHOLE: u16 = 1000;
    pub const USUAL: Self = Self { warmth: Self::WHOLE, room: Self::WHOLE, silent: None };
}

impl Observed {
    /// Drops what is as usual.
    pub fn new(observations: impl IntoIterator<Item = (SocketAddr, Observation)>) -> Self {
        let unusual = observations.into_iter().filter(|(_, observation)| *observation != Observation::USUAL);
        let mut sorted: Box<[_]> = unusual.collect();
        sorted.sort_unstable_by_key(|(address, _)| *address);
        Self(sorted)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn of(&self, endpoint: SocketAddr) -> Observation {
        let found = self.0.binary_search_by_key(&endpoint, |(address, _)| *address);
        found.map_or(Observation::USUAL, |index| self.0[index].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(SocketAddr, Observation)> {
        self.0.iter()
    }
}
