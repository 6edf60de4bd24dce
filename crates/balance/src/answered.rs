//! Which connections have been answered, in constant memory.
//!
//! Each connection is a bit by its hash, so that a flood of connections costs no more than a few. Two connections with the same
//! bit hide each other: with a million connections, a quarter of the new answers is missed. An endpoint that answers is seen by
//! the others.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

/// 512 KiB.
const BITS: usize = 1 << 22;
const WORD: usize = u64::BITS as usize;

/// Client and endpoint.
pub(crate) type Pair = (SocketAddr, SocketAddr);

#[derive(Clone, Debug, Default)]
pub(crate) struct Answered {
    /// Empty without connections.
    words: Vec<u64>,
    /// The same for all walks, and unknown outside.
    hasher: RandomState,
}

impl Answered {
    /// For the next walk.
    pub(crate) fn emptied(&self) -> Self {
        Self { words: Vec::new(), hasher: self.hasher.clone() }
    }

    fn bit(&self, pair: &Pair) -> usize {
        self.hasher.hash_one(pair) as usize % BITS
    }

    pub(crate) fn contains(&self, pair: &Pair) -> bool {
        let bit = self.bit(pair);
        self.words.get(bit / WORD).is_some_and(|word| (word >> (bit % WORD)) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, pair: &Pair) {
        let bit = self.bit(pair);
        self.words.resize(BITS / WORD, 0);
        self.words[bit / WORD] |= 1 << (bit % WORD);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.words.resize(self.words.len().max(other.words.len()), 0);
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(client: u16) -> Pair {
        (([192, 0, 2, 1], client).into(), ([10, 244, 1, 2], 8080).into())
    }

    #[test]
    fn connections_are_found_again_in_the_next_walk() {
        let mut answered = Answered::default();
        assert!(!answered.contains(&pair(1)));
        answered.insert(&pair(1));
        let mut next = answered.emptied();
        next.insert(&pair(2));
        assert!(answered.contains(&pair(1)) && !answered.contains(&pair(2)));
        next.extend(&answered);
        assert!(next.contains(&pair(1)) && next.contains(&pair(2)));
    }
}
