//! Reverse names: `4.3.2.1.in-addr.arpa` and the nibbles of `ip6.arpa`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use crate::wire::{Labels, Name};

static V4: LazyLock<Name> = LazyLock::new(|| Name::from_text("in-addr.arpa").expect("it is a name"));
static V6: LazyLock<Name> = LazyLock::new(|| Name::from_text("ip6.arpa").expect("it is a name"));

pub fn reverse_zones() -> [&'static Name; 2] {
    [&V4, &V6]
}

/// The address of a name below one of the two zones, if it is complete.
pub fn reverse_address(name: &Name) -> Option<IpAddr> {
    if let Some(labels) = name.before(&V4) {
        return v4(Labels::of(labels)).map(IpAddr::V4);
    }
    v6(Labels::of(name.before(&V6)?)).map(IpAddr::V6)
}

fn v4(labels: Labels<'_>) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut n_labels = 0;
    for label in labels {
        let text = std::str::from_utf8(label).ok().filter(|text| !text.starts_with('+'))?;
        *octets.get_mut(n_labels)? = text.parse::<u8>().ok()?;
        n_labels += 1;
    }
    octets.reverse();
    (n_labels == 4).then(|| octets.into())
}

fn v6(labels: Labels<'_>) -> Option<Ipv6Addr> {
    let (mut bits, mut n_labels) = (0u128, 0);
    for label in labels {
        let [digit] = label else { return None };
        bits = bits >> 4 | u128::from(char::from(*digit).to_digit(16)?) << 124;
        n_labels += 1;
    }
    (n_labels == 32).then(|| bits.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        reverse_address(&Name::from_text(text).unwrap())
    }

    #[test]
    fn whole_addresses_are_read() {
        assert_eq!(address("4.3.2.1.in-addr.arpa"), Some("1.2.3.4".parse().unwrap()));
        let v6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.c.b.a.8.7.6.5.ip6.arpa";
        assert_eq!(address(v6), Some("5678:abcd::1".parse().unwrap()));
        for text in ["3.2.1.in-addr.arpa", "5.4.3.2.1.in-addr.arpa", "x.3.2.1.in-addr.arpa", "256.3.2.1.in-addr.arpa"] {
            assert_eq!(address(text), None, "{text}");
        }
        for text in ["1.ip6.arpa", "in-addr.arpa", "ip6.arpa", "example.org", &format!("10{}", &v6[1..])] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
