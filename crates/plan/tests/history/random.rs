//! Checks of random histories. A history that fails is shortened before it is reported.

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Happening, history};

/// Random numbers, the same for the same seed (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, sides: u8) -> u8 {
        (self.next() % u64::from(sides)) as u8
    }

    /// True in so many cases of a hundred.
    pub(crate) fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < percent
    }

    /// A number in half of the cases.
    pub(crate) fn maybe_below(&mut self, sides: u8) -> Option<u8> {
        self.chance(50).then(|| self.below(sides))
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::from(self.below(items.len() as u8))]
    }

    /// At least `fewest` items, and fewer than `limit`.
    pub(crate) fn several<T>(&mut self, fewest: u8, limit: u8, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = fewest + self.below(limit - fewest);
        (0..count).map(|_| item(self)).collect()
    }
}

/// Checks a property of random histories, each with a random number for its own use. HISTORY_SEED=N repeats the one
/// that failed.
pub(crate) fn check(cases: u32, property: impl Fn(&[Happening], u64)) {
    #[allow(clippy::disallowed_methods, reason = "the plan must not read the environment, its tests may")]
    let given = std::env::var("HISTORY_SEED").ok().and_then(|text| text.parse().ok());
    let first = given.unwrap_or_else(|| RandomState::new().hash_one("histories"));
    let cases = if given.is_some() { 1 } else { cases };
    for seed in (0..cases).map(|number| first.wrapping_add(number.into())) {
        let mut dice = Dice(seed);
        let (events, random) = (history(&mut dice), dice.next());
        let fails = |events: &[Happening]| catch_unwind(AssertUnwindSafe(|| property(events, random))).is_err();
        if fails(&events) {
            let events = shortened(events, fails);
            panic!("HISTORY_SEED={seed}, the messages of the failure are above; shortened to {events:#?}");
        }
    }
}

/// Without every event that the failure does not need.
fn shortened(mut events: Vec<Happening>, fails: impl Fn(&[Happening]) -> bool) -> Vec<Happening> {
    for index in (0..events.len()).rev() {
        let mut fewer = events.clone();
        fewer.remove(index);
        if fails(&fewer) {
            events = fewer;
        }
    }
    events
}

#[test]
fn a_failing_history_is_shortened_to_what_fails() {
    let events: Vec<Happening> = (0..20).map(Happening::DeleteService).collect();
    let is_needed = |event: &&Happening| matches!(event, Happening::DeleteService(7 | 13));
    let short = shortened(events, |events| events.iter().filter(is_needed).count() == 2);
    assert_eq!(format!("{short:?}"), "[DeleteService(7), DeleteService(13)]");
}

#[test]
#[should_panic(expected = "HISTORY_SEED=")]
fn a_property_that_does_not_hold_is_refuted() {
    check(100, |events, _| assert!(!events.iter().any(|event| matches!(event, Happening::PutSlices(..)))));
}
