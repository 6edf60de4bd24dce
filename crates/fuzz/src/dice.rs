//! Choices from bytes: a grammar that reads its choices here turns any input into a valid object, and a fuzzer that changes
//! one byte changes one choice.

/// Bytes that are used up one by one; then every choice is the first.
pub(crate) struct Dice<'a>(pub(crate) &'a [u8]);

impl Dice<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit.max(1)
    }

    /// True for one value in so many.
    pub(crate) fn one_in(&mut self, count: u8) -> bool {
        self.below(count) + 1 == count
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[usize::from(self.byte()) % items.len()].clone()
    }

    /// Up to so many items.
    pub(crate) fn several<T>(&mut self, most: u8, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| item(self)).collect()
    }
}
