//! Which of the endpoints that do not answer are left out of a pool.

use std::collections::BTreeSet;

use crate::endpoint::Endpoint;

/// Leaves out those with the lowest ranks, and never more than half: if most of them do not answer, the cause is more likely
/// elsewhere, and one that still serves must not be flooded.
pub(crate) fn leave_out(chosen: &mut Vec<(Endpoint, u64)>, silent: impl Fn(&Endpoint) -> Option<u32>) {
    let mut ranks: Vec<(u32, Endpoint)> =
        chosen.iter().filter_map(|(endpoint, _)| Some((silent(endpoint)?, *endpoint))).collect();
    ranks.sort_unstable();
    let left_out: BTreeSet<Endpoint> = ranks.into_iter().take(chosen.len() / 2).map(|(_, endpoint)| endpoint).collect();
    chosen.retain(|(endpoint, _)| !left_out.contains(endpoint));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(count: u8, silent: &[u8]) -> Vec<u8> {
        let endpoint = |number: u8| Endpoint { address: [10, 0, 0, number].into(), port: 80, may_be_here: false };
        let number = |endpoint: &Endpoint| match endpoint.address {
            std::net::IpAddr::V4(address) => address.octets()[3],
            std::net::IpAddr::V6(_) => 0,
        };
        let mut chosen = (0..count).map(|number| (endpoint(number), 1)).collect();
        let rank = |endpoint: &Endpoint| silent.iter().position(|it| *it == number(endpoint)).map(|rank| rank as u32);
        leave_out(&mut chosen, rank);
        chosen.iter().map(|(endpoint, _)| number(endpoint)).collect()
    }

    #[test]
    fn never_more_than_half_and_never_the_last() {
        assert_eq!(left(3, &[1]), [0, 2]);
        assert_eq!(left(4, &[3, 0, 1]), [1, 2]);
        assert_eq!(left(3, &[0, 1, 2]), [1, 2]);
        assert_eq!(left(1, &[0]), [0]);
        assert_eq!(left(2, &[1, 0]), [0]);
    }
}
