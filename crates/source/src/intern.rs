//! Strings that recur (namespaces, port names, node names, zones), each in memory once.

use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: HashSet<Arc<str>>,
    after_sweep: usize,
}

impl Interner {
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(shared.clone());
        shared
    }

    /// Drops strings that are no longer used, once enough have been added since the last sweep.
    pub(crate) fn sweep(&mut self) {
        if self.texts.len() > self.after_sweep + self.after_sweep / 4 + 64 {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.after_sweep = self.texts.len();
        }
    }
}
