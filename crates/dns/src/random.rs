//! Cryptographic random bytes for query ids and for the case of names, and a fast generator for rotation.

use rustix::rand::{GetRandomFlags, getrandom};

/// From the kernel. Predictable ids would allow spoofed answers.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut octets = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut octets[filled..], GetRandomFlags::empty()).unwrap_or(0);
    }
    octets
}

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
