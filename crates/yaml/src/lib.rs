//! YAML, and how types are read from it. All YAML of this project is read here.
//!
//! A text becomes a tree of [`Node`]s with line numbers, and serde reads types from the tree. Most manifests are plain block
//! style, for which [`plain`] is several times as fast as [`full`], which reads all of YAML 1.2. Both produce the same tree.
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

pub use error::Error;
pub use mapping::DuplicateKeys;
pub use node::{Content, Entry, Node};
pub use scalar::Scalar;

/// The only document of a text. A text without content is null.
pub fn read(text: &str) -> Result<Node<'_>, Error> {
    plain::parse(text).map_or_else(|_| full::read_one(text), Ok)
}

/// All documents of a text.
pub fn read_all(text: &str) -> Result<Vec<Node<'_>>, Error> {
    full::Documents::new(text, DuplicateKeys::Refused).collect()
}

/// The first document of a text that is not null. What follows it is not even parsed.
pub fn read_first(text: &str, duplicate_keys: DuplicateKeys) -> Result<Node<'_>, Error> {
    let mut documents = full::Documents::new(text, duplicate_keys);
    let first = documents.find(|document| !document.as_ref().is_ok_and(Node::is_null));
    first.unwrap_or_else(|| Ok(Node::null(1)))
}
