//! The entries of a mapping: keys that repeat, and merge keys (`<<`).

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::Error;
use crate::node::{Content, Entry, Node};

/// What happens to a key that a mapping has twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateKeys {
    Refused,
    /// All entries are kept.
    Kept,
}

/// A mapping that is being read. Keys and values arrive in turn.
#[derive(Default)]
pub(crate) struct Mapping<'a> {
    entries: Vec<Entry<'a>>,
    key: Option<Key<'a>>,
    /// The values of merge keys.
    merged: Vec<Node<'a>>,
}

struct Key<'a> {
    line: u32,
    text: Cow<'a, str>,
    is_merge: bool,
}

impl<'a> Mapping<'a> {
    pub(crate) fn push(&mut self, node: Node<'a>) -> Result<(), Error> {
        match self.key.take() {
            None => self.key = Some(key(node)?),
            Some(key) if key.is_merge => self.merged.push(node),
            Some(key) => self.entries.push(Entry { line: key.line, key: key.text, value: node }),
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, duplicate_keys: DuplicateKeys) -> Result<Content<'a>, Error> {
        if duplicate_keys == DuplicateKeys::Refused {
            refuse_duplicates(&self.entries)?;
        }
        if !self.merged.is_empty() {
            merge(&mut self.entries, self.merged)?;
        }
        Ok(Content::Map(self.entries))
    }
}

fn key(node: Node<'_>) -> Result<Key<'_>, Error> {
    let is_null = node.is_null();
    match node.content {
        Content::Plain(text) if !is_null => Ok(Key { line: node.line, is_merge: text == "<<", text }),
        Content::Quoted(text) => Ok(Key { line: node.line, is_merge: false, text }),
        _ => Err(Error::new(node.line, "a key must be a string")),
    }
}

fn refuse_duplicates(entries: &[Entry<'_>]) -> Result<(), Error> {
    let mut known = HashSet::with_capacity(entries.len());
    match entries.iter().find(|entry| !known.insert(&*entry.key)) {
        Some(entry) => Err(Error::new(entry.line, format!("duplicate mapping key: {}", shown(&entry.key)))),
        None => Ok(()),
    }
}

/// A key may contain anything; a message has one line.
fn shown(key: &str) -> String {
    key.chars().take(60).flat_map(char::escape_debug).collect()
}

/// The mapping's own entries win, then those of the first merged mapping that has the key.
fn merge<'a>(entries: &mut Vec<Entry<'a>>, merged: Vec<Node<'a>>) -> Result<(), Error> {
    let mut known: HashSet<String> = entries.iter().map(|entry| entry.key.to_string()).collect();
    for node in merged {
        let line = node.line;
        let nodes = if let Content::List(items) = node.content { items } else { vec![node] };
        for node in nodes {
            match node.content {
                Content::Map(more) => entries.extend(more.into_iter().filter(|it| known.insert(it.key.to_string()))),
                Content::Plain(_) if node.is_null() => {}
                _ => return Err(Error::new(line, "the value of << must be a mapping or a list of mappings")),
            }
        }
    }
    Ok(())
}
