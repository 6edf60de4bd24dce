//! Actual or desired kernel objects, and the difference between two such states.

use std::collections::BTreeMap;
use std::fmt;

use portolan_model::Family;

use crate::Dataplane;

/// A set of kernel objects by name.
pub struct Objects<D: Dataplane + ?Sized>(pub BTreeMap<D::Key, D::Value>);

impl<D: Dataplane + ?Sized> Objects<D> {
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }
}

/// The objects in the order of their keys, to be compared once. Of hundreds of thousands, a map takes longer to build and to drop.
pub struct Sorted<D: Dataplane + ?Sized>(Vec<(D::Key, D::Value)>);

impl<D: Dataplane + ?Sized> Sorted<D> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Objects with the same key have the same content.
impl<D: Dataplane + ?Sized> FromIterator<(D::Key, D::Value)> for Sorted<D> {
    fn from_iter<I: IntoIterator<Item = (D::Key, D::Value)>>(objects: I) -> Self {
        let mut objects: Vec<_> = objects.into_iter().collect();
        // Stable, because that is quick where pieces are in order already.
        objects.sort_by(|(one, _), (other, _)| one.cmp(other));
        objects.dedup_by(|later, first| {
            debug_assert!(later.0 != first.0 || later.1 == first.1, "two contents of one object");
            later.0 == first.0
        });
        Self(objects)
    }
}

impl<D: Dataplane + ?Sized> From<Objects<D>> for Sorted<D> {
    fn from(objects: Objects<D>) -> Self {
        Self(objects.0.into_iter().collect())
    }
}

impl<D: Dataplane + ?Sized> From<Sorted<D>> for Objects<D> {
    fn from(sorted: Sorted<D>) -> Self {
        Self(sorted.0.into_iter().collect())
    }
}

/// What to write. A replaced object is in both halves, with its old and its new content.
pub struct Change<D: Dataplane + ?Sized> {
    pub removed: BTreeMap<D::Key, D::Value>,
    pub added: BTreeMap<D::Key, D::Value>,
}

impl<D: Dataplane + ?Sized> Change<D> {
    /// Walks both in order and collects what differs; nothing is copied.
    pub fn between(before: impl Into<Sorted<D>>, after: impl Into<Sorted<D>>) -> Self {
        let (before, after) = (before.into(), after.into());
        if before.0.is_empty() {
            return Self { removed: BTreeMap::new(), added: after.0.into_iter().collect() };
        }
        let mut change = Self { removed: BTreeMap::new(), added: BTreeMap::new() };
        let mut after = after.0.into_iter().peekable();
        for (key, old) in before.0 {
            while let Some((key, new)) = after.next_if(|(next, _)| *next < key) {
                change.added.insert(key, new);
            }
            let same_key = after.next_if(|(next, _)| *next == key);
            if same_key.as_ref().is_none_or(|(_, new)| *new != old) {
                change.added.extend(same_key);
                change.removed.insert(key, old);
            }
        }
        change.added.extend(after);
        change
    }

    /// The change of each family that has one.
    pub(crate) fn by_family(mut self, family_of: impl Fn(&D::Key) -> Family) -> Vec<(Family, Self)> {
        let is_other = |key: &D::Key, _: &mut D::Value| family_of(key) == Family::V6;
        let other = Self {
            removed: self.removed.extract_if(.., is_other).collect(),
            added: self.added.extract_if(.., is_other).collect(),
        };
        [(Family::V4, self), (Family::V6, other)].into_iter().filter(|(_, change)| !change.is_empty()).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// How many objects differ.
    pub fn len(&self) -> usize {
        self.keys().count()
    }

    /// How many objects differ that the other change leaves alone.
    pub(crate) fn count_beside(&self, other: &Self) -> usize {
        self.keys().filter(|key| !other.removed.contains_key(key) && !other.added.contains_key(key)).count()
    }

    fn keys(&self) -> impl Iterator<Item = &D::Key> {
        self.removed.keys().chain(self.added.keys().filter(|key| !self.removed.contains_key(key)))
    }

    /// Applies the change to the objects that it was computed from.
    pub fn apply_to(&self, objects: &mut Objects<D>) {
        for key in self.removed.keys() {
            objects.0.remove(key);
        }
        objects.0.extend(self.added.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

impl<D: Dataplane + ?Sized> Clone for Objects<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: Dataplane + ?Sized> Default for Objects<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Dataplane + ?Sized> PartialEq for Objects<D> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<D: Dataplane + ?Sized> fmt::Display for Objects<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(key, value)| writeln!(formatter, "{key}{value}"))
    }
}

impl<D: Dataplane + ?Sized> fmt::Debug for Objects<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// One line per object: `-` is removed, `+` is added, and a replaced object has both.
impl<D: Dataplane + ?Sized> fmt::Display for Change<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<(&D::Key, char, &D::Value)> = self.removed.iter().map(|(k, v)| (k, '-', v)).collect();
        lines.extend(self.added.iter().map(|(key, value)| (key, '+', value)));
        lines.sort_by(|left, right| left.0.cmp(right.0));
        lines.iter().try_for_each(|(key, sign, value)| writeln!(formatter, "{sign} {key}{value}"))
    }
}
