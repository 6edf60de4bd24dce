//! Cryptographic random bytes for query ids and for the case of names, and a fast generator for rotation.

pub(crate) use crate::system::random_bytes;

/// A fast generator for rotating answers.
#[derive(Debug)]
pub(crate) struct Turns(u32);

impl Turns {
    pub(crate) fn new() -> Self {
        Self(u32::from_ne_bytes(random_bytes()) | 1)
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 >> 4
    }
}
