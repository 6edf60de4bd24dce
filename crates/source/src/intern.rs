//! Strings that recur (namespaces, port names, node names, zones), each in memory once.

use std::collections::HashSet;
use std::sync::Arc;

/// Places for strings of the last objects, a power of two.
const RECENT: usize = 64;

#[derive(Debug)]
pub(crate) struct Interner {
    texts: HashSet<Arc<str>>,
    /// Those seen last, by [`place`]: the endpoints of a slice have the same few nodes and zones, and finding one here takes a
    /// fraction of the time of a hash that hostile names cannot slow down.
    recent: [Option<Arc<str>>; RECENT],
    after_sweep: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self { texts: HashSet::new(), recent: [const { None }; RECENT], after_sweep: 0 }
    }
}

impl Interner {
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        let recent = &mut self.recent[place(text)];
        match recent {
            Some(known) if **known == *text => known.clone(),
            _ => {
                let shared = share(&mut self.texts, text);
                *recent = Some(shared.clone());
                shared
            }
        }
    }

    /// Drops strings that are no longer used, once enough have been added since the last sweep.
    pub(crate) fn sweep(&mut self) {
        if self.texts.len() > self.after_sweep + self.after_sweep / 4 + 64 {
            self.recent.fill(None);
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.after_sweep = self.texts.len();
        }
    }
}

fn share(texts: &mut HashSet<Arc<str>>, text: &str) -> Arc<str> {
    if let Some(known) = texts.get(text) {
        return known.clone();
    }
    let shared: Arc<str> = text.into();
    texts.insert(shared.clone());
    shared
}

/// By the length and the end, where numbered names differ.
fn place(text: &str) -> usize {
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
        drop(kept);
        names.sweep();
        assert!(names.texts.is_empty());
    }
}
