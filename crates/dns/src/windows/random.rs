//! Cryptographic random bytes.

use ring::rand::{SecureRandom, SystemRandom};

/// From the system. Predictable ids would allow spoofed answers.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut octets = [0; N];
    while SystemRandom::new().fill(&mut octets).is_err() {}
    octets
}
