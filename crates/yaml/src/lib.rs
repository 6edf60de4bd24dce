//! YAML, and how types are read from it. All YAML of this project is read here.
//!
//! A text becomes a [`Tree`] with line numbers, and serde reads types from the tree. Most manifests are plain block style, for
//! which [`plain`] is several times as fast as [`full`], which reads all of YAML 1.2. Both produce the same tree.
//!
//! Serde's code is generated once for each type and format. With a tree between the two, that code is small, and the parser
//! is compiled once.

#![forbid(unsafe_code)]

mod deserialize;
mod error;
mod full;
mod mapping;
mod node;
mod plain;
mod scalar;
mod tag;
#[cfg(test)]
mod tests;
mod tree;

use serde::de::DeserializeOwned;

pub use error::Error;
pub use mapping::DuplicateKeys;
pub use node::{Content, Entries, Entry, Items, Node};
pub use scalar::Scalar;
pub use tree::Tree;

impl Tree {
    /// Adds the only document of a text. Returns the place of its root.
    pub fn add(&mut self, text: &str) -> Result<usize, Error> {
        let place = self.cells.len();
        if plain::parse(text, self).is_err() {
            self.cells.truncate(place);
            let tree = full::read_one(text)?;
            self.append(tree)?;
        }
        Ok(place)
    }
}

/// The only document of a text. A text without content is null.
pub fn read(text: &str) -> Result<Tree, Error> {
    let mut tree = Tree::for_text_of(text.len());
    tree.add(text).map(|_| tree)
}

/// The only document of a text, as a type.
pub fn read_as<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    read(text)?.root(text).read()
}

/// All documents of a text, each as the same type.
pub fn read_all<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    let documents: Vec<Tree> = full::Documents::new(text, DuplicateKeys::Refused).collect::<Result<_, _>>()?;
    documents.iter().map(|document| document.root(text).read()).collect()
}

/// The first document of a text that is not null. What follows it is not even parsed.
pub fn read_first(text: &str, duplicate_keys: DuplicateKeys) -> Result<Tree, Error> {
    let mut documents = full::Documents::new(text, duplicate_keys);
    let is_null = |document: &Tree| document.root(text).is_null();
    let first = documents.find(|document| !document.as_ref().is_ok_and(is_null));
    first.unwrap_or_else(|| Ok(Tree::null()))
}
