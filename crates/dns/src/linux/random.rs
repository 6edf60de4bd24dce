//! Cryptographic random bytes.

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
