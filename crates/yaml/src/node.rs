//! The tree of a document.

use std::borrow::Cow;

use crate::scalar::{self, Scalar};

/// A value and the line that it starts on, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    pub line: u32,
    pub content: Content<'a>,
}

/// Scalars are kept as text: what a plain one means depends on the type that is read from it.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a> {
    Plain(Cow<'a, str>),
    /// In quotes, or a block scalar: always a string.
    Quoted(Cow<'a, str>),
    List(Vec<Node<'a>>),
    /// In the order of the file.
    Map(Vec<Entry<'a>>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// Of the key.
    pub line: u32,
    pub key: Cow<'a, str>,
    pub value: Node<'a>,
}

impl<'a> Node<'a> {
    pub(crate) fn null(line: u32) -> Self {
        Self { line, content: Content::Plain(Cow::Borrowed("~")) }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.content, Content::Plain(text) if scalar::is_null(text))
    }

    /// The value of a key.
    pub fn into_value(self, key: &str) -> Option<Self> {
        let Content::Map(entries) = self.content else { return None };
        entries.into_iter().find(|entry| entry.key == key).map(|entry| entry.value)
    }

    fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        let Content::Map(entries) = &self.content else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    /// The line of a field such as `spec.ports[0].port`, or of the nearest field around it that is there.
    pub fn line_of(&self, path: &str) -> u32 {
        let (mut node, mut line) = (self, self.line);
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            let Some((found, inner)) = node.child(step) else { break };
            (line, node) = (found, inner);
        }
        line
    }

    fn child(&self, step: &str) -> Option<(u32, &Self)> {
        if let Content::List(items) = &self.content {
            return items.get(step.parse::<usize>().ok()?).map(|item| (item.line, item));
        }
        self.entry(step).map(|entry| (entry.line, &entry.value))
    }

    /// What kind of value this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.content {
            Content::Plain(text) => Scalar::of(text).kind(),
            Content::Quoted(_) => "a string",
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }

    /// How many nodes the tree has, and how deep it is.
    pub(crate) fn extent(&self) -> (usize, usize) {
        let sum = |(nodes, depth): (usize, usize), node: &Self| {
            let inner = node.extent();
            (nodes + inner.0, depth.max(inner.1 + 1))
        };
        match &self.content {
            Content::List(items) => items.iter().fold((1, 1), sum),
            Content::Map(entries) => entries.iter().map(|entry| &entry.value).fold((1, 1), sum),
            Content::Plain(_) | Content::Quoted(_) => (1, 0),
        }
    }
}
