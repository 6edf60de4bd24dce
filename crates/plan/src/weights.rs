//! From weights to the slots of a pool. Every slot gets the same share of new connections, in every mode, so that an endpoint
//! with a greater weight has more of them.

use std::sync::Arc;

use portolan_model::{Observation, PlaceWeights, SliceEndpoint, Weight};

use crate::endpoint::Endpoint;

/// Slots for weights without a small common measure: each share is off by less than one slot.
const LEAST_SLOTS: u64 = 256;
const SLOTS_PER_ENDPOINT: u64 = 16;
const MOST_SLOTS: u64 = 16_384;

/// The weight of an endpoint, multiplied by those of its node and zone.
pub(crate) fn weight(endpoint: &SliceEndpoint, places: Option<&PlaceWeights>) -> u64 {
    let own = u64::from(endpoint.weight.number());
    places.map_or(own, |it| own * of_place(&it.nodes, endpoint.node()) * of_place(&it.zones, endpoint.zone()))
}

/// What is left of a weight. The result is in another measure, so that all weights of a Service go through this or none.
pub(crate) fn reduced(weight: u64, observation: Observation) -> u64 {
    let shares = u64::from(observation.warmth) * u64::from(observation.room);
    let reduced = weight * shares / u64::from(Observation::WHOLE);
    if weight > 0 { reduced.max(1) } else { 0 }
}

fn of_place(known: &[(Arc<str>, Weight)], place: Option<&Arc<str>>) -> u64 {
    let found = place.and_then(|place| known.iter().find(|(name, _)| name == place));
    u64::from(found.map(|(_, weight)| *weight).unwrap_or_default().number())
}

/// Each endpoint as often as its weight demands. Weights are not zero.
pub(crate) fn slots(endpoints: Vec<(Endpoint, u64)>) -> Vec<Endpoint> {
    if endpoints.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return endpoints.into_iter().map(|(endpoint, _)| endpoint).collect();
    }
    let weights: Vec<u64> = endpoints.iter().map(|(_, weight)| *weight).collect();
    let counts = counts(&weights);
    endpoints.iter().zip(counts).flat_map(|((endpoint, _), count)| (0..count).map(|_| *endpoint)).collect()
}

/// The same slots, with those of each endpoint as far from one another as they can be, for turns.
pub(crate) fn spread(endpoints: Vec<(Endpoint, u64)>) -> Vec<Endpoint> {
    let slots = slots(endpoints);
    let of_each = slots.chunk_by(|one, next| one == next);
    let place = |same: &[Endpoint], index: usize| (2 * index + 1) as u64 * (1 << 32) / (2 * same.len()) as u64;
    let places = of_each.flat_map(|same| (0..same.len()).map(move |index| (place(same, index), same[0])));
    let mut places: Vec<(u64, Endpoint)> = places.collect();
    places.sort_unstable();
    places.into_iter().map(|(_, endpoint)| endpoint).collect()
}

fn counts(weights: &[u64]) -> Vec<u64> {
    let measure = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let (count, sum) = (weights.len() as u64, weights.iter().sum::<u64>() / measure);
    let most = (count * SLOTS_PER_ENDPOINT).clamp(LEAST_SLOTS, MOST_SLOTS).max(count);
    if sum <= most {
        return weights.iter().map(|weight| weight / measure).collect();
    }
    apportioned(weights, most, 1)
}

/// The largest remainders get the slots that rounding down leaves. Each endpoint has at least so many.
pub(crate) fn apportioned(weights: &[u64], slots: u64, least: u64) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let exact = |weight: u64| u128::from(weight) * u128::from(slots);
    let mut counts: Vec<u64> = weights.iter().map(|weight| ((exact(*weight) / sum) as u64).max(least)).collect();
    let left = slots.saturating_sub(counts.iter().sum());
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(exact(weights[*index]) % sum));
    order.into_iter().take(left as usize).for_each(|index| counts[index] += 1);
    counts
}

pub fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_in_proportion() {
        assert_eq!(counts(&[100, 300]), [1, 3]);
        assert_eq!(counts(&[100, 100, 50]), [2, 2, 1]);
        assert_eq!(counts(&[1000 * 1000 * 1000, 500 * 1000 * 1000]), [2, 1]);
    }

    /// Within 2 % of what is asked for, at any weights and numbers of endpoints.
    #[test]
    fn shares_are_those_that_were_asked_for() {
        for count in [2, 3, 10, 100, 5000] {
            for salt in 1..20u64 {
                let weights: Vec<u64> = (0..count).map(|index| 1 + (index * salt * 7919 + salt) % 1000).collect();
                let (counts, sum) = (counts(&weights), weights.iter().sum::<u64>() as f64);
                let slots = counts.iter().sum::<u64>() as f64;
                assert!(slots <= (MOST_SLOTS.max(count) * 2) as f64, "{slots} slots for {count} endpoints");
                for (weight, count) in weights.iter().zip(&counts) {
                    let (asked, share) = (*weight as f64 / sum, *count as f64 / slots);
                    assert!(*count > 0 && (asked - share).abs() < 0.02, "{weights:?}: {asked} and {share}");
                }
            }
        }
    }
}
