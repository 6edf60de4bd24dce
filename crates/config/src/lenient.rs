//! Addresses and ranges as kube-proxy parses them: numbers with leading zeros are decimal, and host bits are cleared.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

/// An address; an IPv4-mapped IPv6 address becomes an IPv4 address.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_canonical()),
        Err(_) => parse_v4(text).map(IpAddr::V4),
    }
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u8> = text.split('.').map(|part| number(part)?.try_into().ok()).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(numbers).ok().map(Ipv4Addr::from)
}

/// A decimal number of at most nine digits.
fn number(text: &str) -> Option<u16> {
    let is_plain = (1..=9).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    if is_plain { text.parse::<u32>().ok()?.try_into().ok() } else { None }
}

/// A range, with its host bits cleared.
pub fn parse_range(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let length = u8::try_from(number(length)?).ok()?;
    IpNet::new(parse_address(address)?, length).ok().map(|range| range.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_and_host_bits_are_accepted() {
        for (text, meant) in [
            ("010.001.0.0/16", "10.1.0.0/16"),
            ("10.0.0.1/8", "10.0.0.0/8"),
            ("FD00:0::1/064", "fd00::/64"),
            ("::ffff:10.0.0.1/8", "10.0.0.0/8"),
        ] {
            assert_eq!(parse_range(text).map(|it| it.to_string()).as_deref(), Some(meant));
        }
        for text in ["", "10.0.0.0", "10.0.0/8", "10.0.0.0/33", "10.0.0.256/8", "x/8", "10.0.0.0/-1", "1.2.3.4/ 8"] {
            assert_eq!(parse_range(text), None, "{text}");
        }
        assert_eq!(parse_address("010.0.0.01"), Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(parse_address("10.0.0.0000000000001"), None);
    }
}
