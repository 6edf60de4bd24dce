//! A reader for the plain part of YAML that people and kubectl write: block mappings and lists of one-line scalars.
//!
//! Manifests of 50,000 Services with their EndpointSlices are loaded in 1.1 s of CPU time with it and in 2.9 s with
//! [`crate::full`] alone (`cargo bench -p portolan-source`). It can go when the latter is less than twice the former.
//!
//! At anything else (flow collections, block scalars, anchors, tags, escapes, tabs, characters beyond ASCII, duplicate keys,
//! anything ambiguous) it gives up, and the full reader reads the document.

use std::borrow::Cow;

use crate::node::{Content, Entry, Node};

/// The reason does not matter: the full reader finds it again and reports it.
#[derive(Debug)]
pub(crate) struct NotPlain;

/// Deeper than any Kubernetes object; a limit protects the stack.
const DEEPEST: usize = 32;

pub(crate) fn parse(text: &str) -> Result<Node<'_>, NotPlain> {
    let is_plain = |byte: &u8| *byte == b'\n' || (b' '..=b'~').contains(byte);
    // Without an end in the middle of a chunk, the compiler compares many bytes at once.
    if !text.as_bytes().chunks(256).all(|bytes| bytes.iter().fold(true, |all, byte| all & is_plain(byte))) {
        return Err(NotPlain);
    }
    let mut reader = Reader { rest: text, number: 0, line: None, depth: 0 };
    reader.advance();
    let root = reader.block()?;
    if reader.line.is_some() { Err(NotPlain) } else { Ok(root) }
}

/// A line with content, without its indentation.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: u32,
    indent: usize,
    content: &'a str,
}

impl<'a> Line<'a> {
    /// What follows the dash of a list item, and its distance from the dash.
    fn item(&self) -> Option<(usize, &'a str)> {
        let after = self.content.strip_prefix('-')?;
        let rest = after.trim_start_matches(' ');
        (rest.is_empty() || rest.len() < after.len()).then(|| (self.content.len() - rest.len(), rest))
    }
}

struct Reader<'a> {
    rest: &'a str,
    /// Of the last line that was read.
    number: u32,
    line: Option<Line<'a>>,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Moves to the next line that is neither blank nor a comment.
    fn advance(&mut self) {
        self.line = None;
        while self.line.is_none() && !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            self.number += 1;
            let content = line.trim_start_matches(' ');
            let indent = line.len() - content.len();
            self.line = (!content.is_empty() && !content.starts_with('#')).then(|| Line {
                number: self.number,
                indent,
                content: content.trim_end_matches(' '),
            });
        }
    }

    fn block(&mut self) -> Result<Node<'a>, NotPlain> {
        let line = self.line.ok_or(NotPlain)?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(NotPlain);
        }
        let content = if line.item().is_some() { self.list(line.indent) } else { self.map(line.indent) };
        self.depth -= 1;
        Ok(Node { line: line.number, content: content? })
    }

    fn map(&mut self, indent: usize) -> Result<Content<'a>, NotPlain> {
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(8);
        while let Some(line) = self.line.filter(|line| line.indent == indent && line.item().is_none()) {
            let (key, value) = split_entry(line.content).ok_or(NotPlain)?;
            if entries.iter().any(|known| known.key == key) {
                return Err(NotPlain);
            }
            self.advance();
            let value = self.value(value, line, true)?;
            entries.push(Entry { line: line.number, key: Cow::Borrowed(key), value });
        }
        Ok(Content::Map(entries))
    }

    fn list(&mut self, indent: usize) -> Result<Content<'a>, NotPlain> {
        let mut items = Vec::new();
        while let Some(line) = self.line.filter(|line| line.indent == indent) {
            let Some((offset, rest)) = line.item() else { break };
            items.push(self.list_item(line, offset, rest)?);
        }
        Ok(Content::List(items))
    }

    /// `- key: value` opens a mapping whose further keys stand below the first one.
    fn list_item(&mut self, line: Line<'a>, offset: usize, rest: &'a str) -> Result<Node<'a>, NotPlain> {
        if split_entry(rest).is_some() {
            self.line = Some(Line { indent: line.indent + offset, content: rest, ..line });
            return self.block();
        }
        self.advance();
        self.value(rest, line, false)
    }

    /// The value behind a key or a dash of a line. A list may stand under its key without further indentation.
    fn value(&mut self, text: &'a str, line: Line<'a>, of_key: bool) -> Result<Node<'a>, NotPlain> {
        let deeper = self.line.is_some_and(|next| next.indent > line.indent);
        let beside = of_key && self.line.is_some_and(|next| next.indent == line.indent && next.item().is_some());
        match text.is_empty() || text.starts_with('#') {
            true if deeper || beside => self.block(),
            true => Ok(Node::null(line.number)),
            false if deeper => Err(NotPlain),
            false => scalar(text).map(|content| Node { line: line.number, content }),
        }
    }
}

/// The bytes of keys, as a table because every line begins with some.
const IS_IN_KEY: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < table.len() {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'_' | b'.' | b'/' | b'-');
        byte += 1;
    }
    table
};

/// `key: value`, `key:`, and nothing else. The value comes without leading spaces.
fn split_entry(content: &str) -> Option<(&str, &str)> {
    let end = content.bytes().position(|byte| !IS_IN_KEY[usize::from(byte)])?;
    let (key, rest) = content.split_at(end);
    let value = rest.strip_prefix(':')?;
    let text = value.trim_start_matches(' ');
    let separated = text.is_empty() || text.len() < value.len();
    let surely_text = key.starts_with(|first: char| first.is_ascii_alphabetic()) && !key.eq_ignore_ascii_case("null");
    (separated && surely_text).then_some((key, text))
}

fn scalar(text: &str) -> Result<Content<'_>, NotPlain> {
    match text.as_bytes()[0] {
        quote @ (b'"' | b'\'') => quoted(text, char::from(quote)),
        b'{' if text == "{}" => Ok(Content::Map(Vec::new())),
        b'[' if text == "[]" => Ok(Content::List(Vec::new())),
        first if first.is_ascii_alphanumeric() || b"./_".contains(&first) => plain(text),
        _ => Err(NotPlain),
    }
}

fn quoted(text: &str, quote: char) -> Result<Content<'_>, NotPlain> {
    let (inner, after) = text[1..].split_once(quote).ok_or(NotPlain)?;
    let simple = !inner.contains('\\') || quote == '\'';
    let ended = after.is_empty() || after.trim_start().starts_with('#') && after.starts_with(' ');
    if simple && ended { Ok(Content::Quoted(Cow::Borrowed(inner))) } else { Err(NotPlain) }
}

fn plain(text: &str) -> Result<Content<'_>, NotPlain> {
    let text = without_comment(text);
    if text.contains(':') && (text.contains(": ") || text.ends_with(':')) {
        return Err(NotPlain);
    }
    Ok(Content::Plain(Cow::Borrowed(text)))
}

/// To look for one byte is many times as fast as to look for two, and nearly no scalar has it.
fn without_comment(text: &str) -> &str {
    match text.contains('#') {
        true => text.split_once(" #").map_or(text, |(before, _)| before.trim_end_matches(' ')),
        false => text,
    }
}
