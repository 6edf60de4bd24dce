//! Objects in YAML and JSON, with the lines of the file that they are on.
//!
//! [`split`] cuts a file into documents, [`document`] reads one.

pub(crate) mod document;
pub(crate) mod split;
