//! Least connections, by weights: an endpoint with more open connections than the least loaded one counts for less.

use portolan_model::Observation;

/// Few different values, so that pools have few slots and a connection more or less rarely changes one.
const STEP: u32 = 50;

/// What counts of the weight, in thousandths. Both loads are in connections.
pub(crate) fn room(open: u32, least: u32) -> u16 {
    let whole = u64::from(Observation::WHOLE);
    let exact = whole * (u64::from(least) + 1) / (u64::from(open) + 1);
    let rounded = (exact as u32).div_ceil(STEP) * STEP;
    rounded.clamp(STEP, u32::from(Observation::WHOLE)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_loaded_endpoint_has_its_whole_weight() {
        assert_eq!(
            [(0, 0), (7, 7), (9, 4), (99, 9), (100_000, 0)].map(|(open, least)| room(open, least)),
            [1000, 1000, 500, 100, 50]
        );
    }
}
