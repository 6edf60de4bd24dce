//! Strings that occur again and again (namespaces, port names, node names, zones), each kept once.

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

    /// Lets go of what nobody else holds any more, once enough has come in to make looking worth while.
    pub(crate) fn sweep(&mut self) {
        if self.texts.len() > self.after_sweep + self.after_sweep / 4 + 64 {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.after_sweep = self.texts.len();
        }
    }
}
