//! Parsing random bytes neither panics nor loops.

use portolan_kernel::netlink::{Attributes, Messages};

/// A random generator with a fixed seed.
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Bytes of which many are small, so that lengths and kinds are often plausible.
    fn bytes(&mut self) -> Vec<u8> {
        let length = self.next() % 200;
        let byte = |random: u64| match random % 3 {
            0 => 0,
            1 => (random >> 8) as u8 % 24,
            _ => (random >> 8) as u8,
        };
        (0..length).map(|_| byte(self.next())).collect()
    }
}

fn visit(attributes: Attributes<'_>, depth: u32) -> usize {
    attributes
        .map(|attribute| {
            let numbers = attribute.number_64().is_some() || attribute.string().is_some();
            let nested = match depth {
                0 => 0,
                _ => visit(attribute.nested(), depth - 1),
            };
            nested + usize::from(numbers)
        })
        .sum()
}

#[test]
fn random_bytes_are_read_to_an_end() {
    let mut random = XorShift(0x9e37_79b9_7f4a_7c15);
    for _ in 0..200_000 {
        let bytes = random.bytes();
        visit(Attributes::new(&bytes), 3);
        for message in Messages::new(&bytes) {
            message.acknowledgement();
            visit(message.attributes(4), 3);
        }
    }
}
