//! Slow start: the weight of a new endpoint grows from a tenth to all of it, in steps, so that shares stay exact and changes few.

use std::time::Duration;

use portolan_model::Observation;

const STEPS: u32 = 10;

/// What counts of the weight, in thousandths.
pub(crate) fn warmth(ready_for: Duration, slow_start: Duration) -> u16 {
    Observation::WHOLE / STEPS as u16 * step(ready_for, slow_start) as u16
}

/// How long after it became ready the next step comes; `None` after the last one.
pub(crate) fn next_step(ready_for: Duration, slow_start: Duration) -> Option<Duration> {
    let step = step(ready_for, slow_start);
    (step < STEPS).then(|| slow_start * step / (STEPS - 1))
}

/// From 1 to the number of steps.
fn step(ready_for: Duration, slow_start: Duration) -> u32 {
    let passed = (1..STEPS).take_while(|step| ready_for >= slow_start * *step / (STEPS - 1));
    1 + passed.count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_weight_grows_from_a_tenth_to_all_of_it() {
        let shares = [0, 9, 10, 45, 89, 90, 1000].map(|seconds| warmth(SECOND * seconds, SECOND * 90));
        assert_eq!(shares, [100, 100, 200, 500, 900, 1000, 1000]);
        assert_eq!(warmth(Duration::ZERO, Duration::ZERO), 1000);
    }

    #[test]
    fn every_step_changes_the_weight() {
        let (mut time, mut seen) = (Duration::ZERO, vec![warmth(Duration::ZERO, SECOND)]);
        while let Some(next) = next_step(time, SECOND) {
            assert!(next > time);
            time = next;
            seen.push(warmth(time, SECOND));
        }
        assert_eq!(seen, [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
    }
}
