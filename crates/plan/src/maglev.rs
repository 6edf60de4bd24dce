//! Maglev tables: slots of a pool from which a hash selects, such that few clients move when an endpoint comes or goes.
//!
//! As in the paper (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016), every endpoint
//! prefers slots in an order that depends on nothing but its address and port, and takes them in that order while they are free.
//! Two things differ. In the paper, endpoints take one slot each by turns, however far each has to search for a free one; here
//! all of them advance in step, each until it has its quota: shares are as even, weights are quotas, and fewer clients
//! move that have nothing to do with the change. And the order is a sequence of hashes, not a start and a step, of which some
//! pairs of endpoints have nearly the same.

use std::net::IpAddr;

use crate::endpoint::Endpoint;
use crate::weights::apportioned;

/// Up to so many endpoints have a table of so many slots. Less than 1 % of the clients move besides those of the endpoint that
/// goes: about 0.6 / √slots, whatever the number of endpoints. The larger one is for even shares, and fits into the 16 bits that
/// modes have for the size of a pool. There are only two, because all clients are assigned anew where one follows the other.
const SIZES: [(usize, u32); 2] = [(24, 8191), (usize::MAX, 65_521)];

/// The table of endpoints that are sorted, with weights above zero.
pub(crate) fn table(endpoints: &[(Endpoint, u64)], size: Option<u32>) -> Vec<Endpoint> {
    match endpoints {
        [] => Vec::new(),
        [(only, _)] => vec![*only],
        _ => fill(endpoints, size.unwrap_or_else(|| size_for(endpoints.len()))),
    }
}

fn size_for(endpoints: usize) -> u32 {
    SIZES.iter().find(|(most, _)| endpoints <= *most).map_or(0, |(_, size)| *size)
}

/// More endpoints than slots cannot all have one: those with the lowest addresses do.
fn fill(endpoints: &[(Endpoint, u64)], size: u32) -> Vec<Endpoint> {
    let size = size as usize;
    let endpoints = &endpoints[..endpoints.len().min(size)];
    let mut slots: Vec<Option<usize>> = vec![None; size];
    let mut claims: Vec<Claim> = quotas(endpoints, size)
        .into_iter()
        .enumerate()
        .map(|(index, quota)| Claim { index, quota, seed: hash(&endpoints[index].0), turn: 0 })
        .collect();
    while !claims.is_empty() {
        for claim in &mut claims {
            let slot = &mut slots[claim.next(size)];
            if slot.is_none() {
                *slot = Some(claim.index);
                claim.quota -= 1;
            }
        }
        claims.retain(|claim| claim.quota > 0);
    }
    slots.into_iter().flatten().map(|index| endpoints[index].0).collect()
}

/// One slot each, and the rest in proportion: together as many as there are slots.
fn quotas(endpoints: &[(Endpoint, u64)], size: usize) -> Vec<u64> {
    let weights: Vec<u64> = endpoints.iter().map(|(_, weight)| *weight).collect();
    let rest = apportioned(&weights, (size - endpoints.len()) as u64, 0);
    rest.into_iter().map(|count| count + 1).collect()
}

/// An endpoint that still takes slots.
struct Claim {
    index: usize,
    quota: u64,
    seed: u64,
    turn: u64,
}

/// A number of slots times as many hashes leave one slot in seven out. Those are taken in a row.
const HASHED_TURNS: u64 = 2;
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

impl Claim {
    /// The next slot in the order of the endpoint.
    fn next(&mut self, size: usize) -> usize {
        self.turn += 1;
        let size = size as u64;
        let slot = match self.turn < HASHED_TURNS * size {
            true => ((mixed(self.seed.wrapping_add(self.turn.wrapping_mul(GOLDEN_RATIO))) >> 32) * size) >> 32,
            false => self.turn % size,
        };
        slot as usize
    }
}

/// The same on every node and in every version: FNV-1a.
fn hash(endpoint: &Endpoint) -> u64 {
    let address: Vec<u8> = match endpoint.address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    };
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = address.iter().chain(&endpoint.port.to_be_bytes()).fold(0xcbf2_9ce4_8422_2325, add);
    mixed(hash)
}

/// The last step of MurmurHash3: every bit of the number has an effect on every bit of the result.
fn mixed(mut hash: u64) -> u64 {
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn endpoints(first: u32, count: u32) -> Vec<(Endpoint, u64)> {
        let endpoint = |number: u32| {
            let address = IpAddr::V4((0x0af4_0000 + first + number).into());
            (Endpoint { address, port: 8080, may_be_here: false }, 100)
        };
        (0..count).map(endpoint).collect()
    }

    fn counts(table: &[Endpoint]) -> HashMap<Endpoint, usize> {
        let mut counts = HashMap::new();
        table.iter().for_each(|endpoint| *counts.entry(*endpoint).or_default() += 1);
        counts
    }

    /// Slots that change their endpoint although it is there before and after, in thousandths.
    fn moved(before: &[Endpoint], after: &[Endpoint], changed: Endpoint) -> f64 {
        let is_moved =
            |(before, after): &(&Endpoint, &Endpoint)| before != after && **before != changed && **after != changed;
        before.iter().zip(after).filter(is_moved).count() as f64 / before.len() as f64
    }

    fn without(endpoints: &[(Endpoint, u64)], index: usize) -> Vec<(Endpoint, u64)> {
        let kept = endpoints.iter().enumerate().filter(|(other, _)| *other != index);
        kept.map(|(_, endpoint)| *endpoint).collect()
    }

    #[test]
    fn shares_are_even() {
        for count in [2, 3, 10, 24, 25, 300] {
            let table = table(&endpoints(0, count), None);
            let exact = table.len() as f64 / f64::from(count);
            let worst = counts(&table).values().map(|it| (*it as f64 / exact - 1.0).abs()).fold(0.0, f64::max);
            assert!(worst < 0.02, "{count} endpoints in {} slots: off by {worst}", table.len());
        }
    }

    #[test]
    fn shares_follow_weights() {
        let mut weighted = endpoints(0, 3);
        (weighted[0].1, weighted[2].1) = (300, 1);
        let table = table(&weighted, None);
        let share = |index: usize| counts(&table)[&weighted[index].0] as f64 / table.len() as f64;
        for (index, asked) in [300.0 / 401.0, 100.0 / 401.0, 1.0 / 401.0].into_iter().enumerate() {
            assert!((share(index) - asked).abs() < 0.001, "{index}: {} for {asked}", share(index));
        }
    }

    /// One endpoint leaves: its own clients move, and less than 1 % of the others. It returns: the table is as before.
    #[test]
    fn few_clients_move_when_an_endpoint_leaves() {
        for (count, gone) in [(3, 0), (5, 3), (10, 4), (16, 9), (24, 2), (25, 3), (100, 77)] {
            for first in [0, 5000] {
                let all = endpoints(first, count);
                let size = size_for(all.len());
                let moved = moved(&fill(&all, size), &fill(&without(&all, gone), size), all[gone].0);
                assert!(moved < 0.01, "{count} endpoints in {size} slots: {moved} moved");
            }
        }
    }

    /// The construction of the paper: endpoints take turns, and each searches for its next free slot.
    fn as_in_the_paper(endpoints: &[(Endpoint, u64)], size: u64) -> Vec<Endpoint> {
        let order = |(endpoint, _): &(Endpoint, u64)| {
            let hash = hash(endpoint);
            (mixed(hash ^ 1) % size, 1 + mixed(hash ^ 2) % (size - 1))
        };
        let mut orders: Vec<(u64, u64)> = endpoints.iter().map(order).collect();
        let mut slots: Vec<Option<Endpoint>> = vec![None; size as usize];
        for turn in 0..size as usize {
            let index = turn % endpoints.len();
            let (next, step) = &mut orders[index];
            while slots[*next as usize].is_some() {
                *next = (*next + *step) % size;
            }
            slots[*next as usize] = Some(endpoints[index].0);
        }
        slots.into_iter().flatten().collect()
    }

    /// `cargo test -p portolan-plan maglev::tests::figures -- --nocapture` prints them.
    #[test]
    fn figures() {
        const SAMPLES: u32 = 4;
        for size in [251, 8191, 65_537] {
            let (mut ours, mut paper, mut worst_share) = (0.0, 0.0, 0.0_f64);
            for sample in 0..SAMPLES {
                let all = endpoints(sample * 1000, 10);
                let gone = sample as usize;
                let left = without(&all, gone);
                let table = fill(&all, size);
                let even = f64::from(size) / 10.0;
                worst_share =
                    counts(&table).values().map(|it| (*it as f64 / even - 1.0).abs()).fold(worst_share, f64::max);
                ours += moved(&table, &fill(&left, size), all[gone].0);
                let size = u64::from(size);
                paper += moved(&as_in_the_paper(&all, size), &as_in_the_paper(&left, size), all[gone].0);
            }
            let percent = |sum: f64| sum / f64::from(SAMPLES) * 100.0;
            println!(
                "{size} slots, one of 10 endpoints leaves: its own 10 % and {:.2} % move, {:.2} % with the paper's \
                 construction; shares are off by {:.2} % at most",
                percent(ours),
                percent(paper),
                worst_share * 100.0
            );
            assert!(ours < paper, "{size} slots: {ours} and {paper}");
        }
    }

    #[test]
    fn a_table_depends_on_nothing_but_its_endpoints() {
        let all = endpoints(0, 5);
        assert_eq!(table(&all, Some(251)), table(&all, Some(251)));
        assert_eq!(table(&all[..1], Some(251)), [all[0].0]);
        assert_eq!(table(&endpoints(0, 300), Some(251)).len(), 251);
        assert_eq!(table(&[], None), []);
    }
}
