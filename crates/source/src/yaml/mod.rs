//! Objects in YAML and JSON, with the lines of the file that they are on. All YAML of this crate is read here.
//!
//! [`split`] cuts a file into documents, [`document`] reads one. Most documents are plain block style, for which
//! [`plain`] is faster than serde-saphyr; everything else, and every error, is left to serde-saphyr.

pub(crate) mod document;
mod full;
mod lines;
mod node;
mod plain;
pub(crate) mod split;
#[cfg(test)]
mod tests;
