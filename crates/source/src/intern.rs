//! Strings that recur (namespaces, port names, node names, zones), and places of endpoints, each in memory once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use portolan_model::Place;

/// How many strings that were used last are kept at hand.
const RECENT: usize = 64;

#[derive(Debug)]
pub(crate) struct Interner {
    texts: HashSet<Arc<str>>,
    /// Those seen last, by [`slot`]: the endpoints of a slice have the same few nodes and zones, and finding one here takes a
    /// fraction of the time of a hash that hostile names cannot slow down.
    recent: [Option<Arc<str>>; RECENT],
    places: HashSet<Arc<Place>>,
    recent_places: [Option<Arc<Place>>; RECENT],
    after_sweep: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            texts: HashSet::new(),
            recent: [const { None }; RECENT],
            places: HashSet::new(),
            recent_places: [const { None }; RECENT],
            after_sweep: 0,
        }
    }
}

impl Interner {
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        let recent = &mut self.recent[slot(text)];
        match recent {
            Some(known) if **known == *text => known.clone(),
            _ => recent.insert(share(&mut self.texts, text, || text.into())).clone(),
        }
    }

    /// `None` if neither node nor zone is known.
    pub(crate) fn place(&mut self, place: Place) -> Option<Arc<Place>> {
        let place = place.known()?;
        let slot_of = |name: &Option<Arc<str>>| name.as_deref().map_or(0, slot);
        let recent = &mut self.recent_places[(slot_of(&place.node) + slot_of(&place.zone)) % RECENT];
        Some(match recent {
            Some(known) if **known == place => known.clone(),
            _ => recent.insert(share(&mut self.places, &place, || Arc::new(place.clone()))).clone(),
        })
    }

    /// Drops strings that are no longer used, once enough have been added since the last sweep.
    pub(crate) fn sweep(&mut self) {
        if self.texts.len() > self.after_sweep + self.after_sweep / 4 + 64 {
            self.recent.fill(None);
            self.recent_places.fill(None);
            // Places use strings.
            self.places.retain(|place| Arc::strong_count(place) > 1);
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.after_sweep = self.texts.len();
        }
    }
}

fn share<T: Eq + Hash + ?Sized>(known: &mut HashSet<Arc<T>>, one: &T, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
    if let Some(known) = known.get(one) {
        return known.clone();
    }
    let shared = make();
    known.insert(shared.clone());
    shared
}

/// By the length and the end, where numbered names differ.
fn slot(text: &str) -> usize {
    let end = text.bytes().rev().take(3).fold(0, |sum, byte| sum * 7 + usize::from(byte));
    (text.len() * 31 + end) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_one_and_unused_ones_go() {
        let mut names = Interner::default();
        let kept: Vec<Arc<str>> = (0..500).map(|number| names.share(&format!("node-{number}"))).collect();
        for (number, name) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(name, &names.share(&format!("node-{number}"))));
        }
        let places: Vec<_> =
            kept.iter().map(|node| names.place(Place { node: Some(node.clone()), zone: None })).collect();
        for (node, place) in kept.iter().zip(&places) {
            let again = names.place(Place { node: Some(node.clone()), zone: None });
            assert!(Arc::ptr_eq(place.as_ref().unwrap(), &again.unwrap()));
        }
        assert_eq!(names.place(Place::default()), None);
        drop((kept, places));
        names.sweep();
        assert!(names.texts.is_empty() && names.places.is_empty());
    }
}
