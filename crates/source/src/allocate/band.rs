//! The order in which numbers are picked. As in Kubernetes, the lower band is left to explicit requests, and picks use it
//! only when the upper one is full.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use portolan_model::Family;

/// The addresses of a range that a Service may have: without the network address and, in IPv4, the broadcast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usable {
    family: Family,
    first: u128,
    count: u64,
    lower: u64,
}

pub(crate) fn usable(range: &IpNet) -> Usable {
    let (family, bits) = match range {
        IpNet::V4(_) => (Family::V4, 32),
        IpNet::V6(_) => (Family::V6, 128),
    };
    // A larger range cannot be filled; a bound keeps the arithmetic within 64 bits.
    let size = 1_u64 << u32::from(bits - range.prefix_len()).min(62);
    let reserved = if family == Family::V4 { 2 } else { 1 };
    let lower = if size <= 16 { 0 } else { (size / 16).clamp(16, 256) };
    Usable { family, first: number(range.network()) + 1, count: size.saturating_sub(reserved), lower }
}

impl Usable {
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let offset = number(address).checked_sub(self.first);
        Family::of(address) == self.family && offset.is_some_and(|offset| offset < u128::from(self.count))
    }

    pub(crate) fn family(&self) -> Family {
        self.family
    }

    pub(crate) fn pick(&self, hash: u64, is_free: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let offset = pick(self.count, self.lower, hash, |offset| is_free(self.at(offset)))?;
        Some(self.at(offset))
    }

    fn at(&self, offset: u64) -> IpAddr {
        let number = self.first + u128::from(offset);
        match self.family {
            Family::V4 => Ipv4Addr::from(number as u32).into(),
            Family::V6 => Ipv6Addr::from(number).into(),
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

pub(crate) fn pick_port(
    range: &std::ops::RangeInclusive<u16>,
    hash: u64,
    is_free: impl Fn(u16) -> bool,
) -> Option<u16> {
    let count = u64::from(range.end().saturating_sub(*range.start())) + 1;
    let lower = if count <= 16 { 0 } else { (count / 32).clamp(16, 128) };
    let port = |offset: u64| range.start() + offset as u16;
    pick(count, lower, hash, |offset| is_free(port(offset))).map(port)
}

/// The upper band, cyclically from an offset that depends on the hash, then the lower band.
fn pick(count: u64, lower: u64, hash: u64, is_free: impl Fn(u64) -> bool) -> Option<u64> {
    let upper = count.saturating_sub(lower);
    let mut upper_band = (0..upper).map(|step| lower + (hash % upper + step) % upper);
    upper_band.find(|offset| is_free(*offset)).or_else(|| (0..lower.min(count)).find(|offset| is_free(*offset)))
}

/// A hash that is the same in every build and on every machine (FNV-1a, then mixed), so that a Service tends to get
/// the same address even without a state file.
pub(crate) fn stable_hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_those_of_kubernetes() {
        for (range, first_dynamic) in
            [("10.0.0.0/24", 17), ("10.0.0.0/20", 257), ("10.0.0.0/12", 257), ("10.0.0.0/28", 1)]
        {
            let range: IpNet = range.parse().unwrap();
            let picked = usable(&range).pick(0, |_| true).unwrap();
            assert_eq!(number(picked) - number(range.network()), first_dynamic, "{range}");
        }
        assert_eq!(pick_port(&(30000..=32767), 0, |_| true), Some(30086));
    }

    #[test]
    fn a_full_upper_band_leaves_the_lower_one() {
        let range: IpNet = "10.0.0.0/24".parse().unwrap();
        let lower_only = |address: IpAddr| number(address) & 255 <= 16;
        assert_eq!(usable(&range).pick(7, lower_only), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(usable(&range).pick(7, |_| false), None);
    }

    #[test]
    fn the_edges_of_a_range_are_not_usable() {
        let usable = usable(&"10.0.0.0/24".parse().unwrap());
        let contains = |text: &str| usable.contains(text.parse().unwrap());
        assert!(contains("10.0.0.1") && contains("10.0.0.254"));
        assert!(!contains("10.0.0.0") && !contains("10.0.0.255") && !contains("10.0.1.1") && !contains("fd00::1"));
    }

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(stable_hash(&["default", "web", "IPv4"]), stable_hash(&["default", "web", "IPv4"]));
        assert_ne!(stable_hash(&["ab", "c"]), stable_hash(&["a", "bc"]));
    }
}
