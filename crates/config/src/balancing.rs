//! The section `balancing` of the file, which is Portolan's own: how Services are balanced that have no annotation about it.

use portolan_model::{Balancing, Malformed, duration};

use crate::document::Document;

impl Document {
    /// What is malformed has been refused by [`check`].
    pub fn balancing(&self) -> Balancing {
        read(self, &mut Vec::new())
    }
}

/// The malformed fields, each with what is wrong.
pub(crate) fn check(document: &Document) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    read(document, &mut wrong);
    wrong
}

fn read(document: &Document, wrong: &mut Vec<(&'static str, String)>) -> Balancing {
    let size = document.integer("balancing.maglevTableSize");
    let size = if size == 0 { String::new() } else { size.to_string() };
    let mut fields = Fields { document, wrong };
    Balancing {
        algorithm: fields.read("balancing.algorithm", str::parse),
        hash: fields.read("balancing.hash", str::parse),
        table_size: fields.parsed("balancing.maglevTableSize", &size, str::parse),
        slow_start: fields.read("balancing.slowStart", duration),
        quarantine: document.boolean("balancing.quarantine").then_some(true),
        removed_connections: fields.read("balancing.connectionsOfRemovedEndpoints", str::parse),
        rebalance: fields.read("balancing.rebalance", str::parse),
        ..Balancing::default()
    }
}

struct Fields<'a> {
    document: &'a Document,
    wrong: &'a mut Vec<(&'static str, String)>,
}

impl Fields<'_> {
    fn read<T>(&mut self, path: &'static str, parse: impl Fn(&str) -> Result<T, Malformed>) -> Option<T> {
        self.parsed(path, self.document.text(path), parse)
    }

    /// An empty text leaves it out.
    fn parsed<T>(&mut self, path: &'static str, text: &str, parse: impl Fn(&str) -> Result<T, Malformed>) -> Option<T> {
        let value = (!text.is_empty()).then(|| parse(text))?;
        value.map_err(|Malformed(reason)| self.wrong.push((path, reason))).ok()
    }
}
