//! The hash by which clients are assigned to slots: the kernel's `jhash`, with one seed on all nodes, so that rules in the kernel,
//! the relay and the plan give the same client the same slot.

use std::net::IpAddr;

/// Fixed, so that every node, and a node after a restart, selects the same slot.
pub const CLIENT_HASH_SEED: u32 = 0x706f_7274;

const INITIAL: u32 = 0xdead_beef;

/// The slot of a client, of `slots`. With its port, each of its connections is a client of its own.
pub fn client_slot(client: IpAddr, port: Option<u16>, slots: u32) -> u32 {
    scaled(jhash(&key(client, port), CLIENT_HASH_SEED), slots)
}

/// As in the registers of nf_tables: fields begin at a multiple of four bytes.
fn key(client: IpAddr, port: Option<u16>) -> Vec<u8> {
    let mut key = match client {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    if let Some(port) = port {
        key.extend(port.to_be_bytes());
        key.extend([0; 2]);
    }
    key
}

/// The kernel's `reciprocal_scale`: from the range of all hashes to that of the slots.
pub fn scaled(hash: u32, slots: u32) -> u32 {
    ((u64::from(hash) * u64::from(slots)) >> 32) as u32
}

/// The kernel's `jhash` (`include/linux/jhash.h`).
pub fn jhash(key: &[u8], seed: u32) -> u32 {
    let start = INITIAL.wrapping_add(key.len() as u32).wrapping_add(seed);
    let mut state = [start; 3];
    let mut rest = key;
    while rest.len() > 12 {
        add(&mut state, &rest[..12], u32::from_ne_bytes);
        mix(&mut state);
        rest = &rest[12..];
    }
    if !rest.is_empty() {
        add(&mut state, rest, u32::from_le_bytes);
        finish(&mut state);
    }
    state[2]
}

/// The kernel reads words in the byte order of the machine, and the last ones byte by byte.
fn add(state: &mut [u32; 3], bytes: &[u8], read: fn([u8; 4]) -> u32) {
    for (word, bytes) in state.iter_mut().zip(bytes.chunks(4)) {
        let mut padded = [0; 4];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = word.wrapping_add(read(padded));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, bits| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(bits);
        *z = z.wrapping_add(*y);
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, bits| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of lookup3.c, whose `hashlittle` this is.
    #[test]
    fn hashes_are_those_of_the_reference() {
        let text = b"Four score and seven years ago";
        assert_eq!((jhash(text, 0), jhash(text, 1)), (0x1777_0551, 0xcd62_8161));
        assert_eq!(jhash(b"", 0), 0xdead_beef);
    }

    #[test]
    fn clients_are_spread_evenly() {
        let mut counts = [0u32; 7];
        for number in 0..70_000u32 {
            counts[client_slot(IpAddr::V4(number.into()), None, 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_port_makes_a_difference() {
        let client: IpAddr = "fd00::1".parse().unwrap();
        let slots: std::collections::BTreeSet<u32> =
            (0..100).map(|port| client_slot(client, Some(port), 251)).collect();
        assert!(slots.len() > 50, "{slots:?}");
        assert_ne!(client_slot(client, None, 251), client_slot("fd00::2".parse().unwrap(), None, 251));
    }
}
