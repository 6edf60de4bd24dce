//! A slab with generational keys: a key of a removed value never refers to a later one.

use std::fmt;

/// The index of a slot, and the generation of its value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

/// The bits of a generation that fit into the epoll token.
const GENERATION: u32 = (1 << 28) - 1;

impl Key {
    /// The key as a number of 60 bits.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn of_number(number: u64) -> Self {
        Key { index: number as u32, generation: (number >> 32) as u32 & GENERATION }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.index, self.generation)
    }
}

pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    content: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Slots { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, content: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[index as usize];
        slot.content = Some(content);
        Key { index, generation: slot.generation }
    }

    fn grow(&mut self) -> u32 {
        self.slots.push(Slot { generation: 0, content: None });
        u32::try_from(self.slots.len() - 1).expect("the number of slots is bounded by the number of descriptors")
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        slot.content.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        slot.content.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        let content = slot.content.take()?;
        slot.generation = (slot.generation + 1) & GENERATION;
        self.free.push(key.index);
        Some(content)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.content.as_mut())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(index, slot)| Some((Key { index, generation: slot.generation }, slot.content.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_key_finds_nothing() {
        let mut slots = Slots::new();
        let old = slots.insert("old");
        assert_eq!(slots.remove(old), Some("old"));
        let new = slots.insert("new");
        assert_eq!((slots.get(old), slots.get(new)), (None, Some(&"new")));
        assert_eq!(slots.remove(old), None);
        assert_eq!(Key::of_number(new.number()), new);
        assert_eq!(slots.iter().count(), 1);
    }
}
