//! A reader for the plain part of YAML that people and kubectl write: block mappings and lists of one-line scalars.
//!
//! Manifests of 50,000 Services with their EndpointSlices are loaded in 1.1 s of CPU time with it and in 2.9 s with
//! [`crate::full`] alone (`cargo bench -p portolan-source`). It can go when the latter is less than twice the former.
//!
//! At anything else (flow collections, block scalars, anchors, tags, escapes, tabs, characters beyond ASCII, duplicate keys,
//! anything ambiguous) it gives up, and the full reader reads the document.

use crate::tree::{Cell, Key, Kind, LONGEST, Part, Tree};

/// The reason does not matter: the full reader finds it again and reports it.
#[derive(Debug)]
pub(crate) struct NotPlain;

/// Deeper than any Kubernetes object; a limit protects the stack.
const DEEPEST: usize = 32;

/// Each key is compared with those before it, which takes too long for more.
const MOST_KEYS: usize = 64;

/// Adds a document to the tree.
pub(crate) fn parse(text: &str, tree: &mut Tree) -> Result<(), NotPlain> {
    let bytes = text.as_bytes();
    if bytes.len() > LONGEST || !is_plain(bytes) {
        return Err(NotPlain);
    }
    let mut reader = Reader { bytes, next: 0, number: 0, line: None, depth: 0, tree };
    reader.advance();
    reader.block(Key::default())?;
    if reader.line.is_some() { Err(NotPlain) } else { Ok(()) }
}

fn is_plain(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| *byte == b'\n' || (b' '..=b'~').contains(byte);
    // Without an end in the middle of a chunk, the compiler compares many bytes at once.
    bytes.chunks(256).all(|bytes| bytes.iter().fold(true, |all, byte| all & is_plain(byte)))
}

/// A line with content. The content is without indentation, and without spaces at its end.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: u32,
    indent: usize,
    content: Text<'a>,
    /// Where the content of a list item is, if this is one.
    item: Option<usize>,
}

/// Some bytes and where they start.
#[derive(Clone, Copy)]
struct Text<'a> {
    start: usize,
    bytes: &'a [u8],
}

impl<'a> Text<'a> {
    fn after(self, offset: usize) -> Self {
        Self { start: self.start + offset, bytes: &self.bytes[offset..] }
    }

    fn until(self, end: usize) -> Self {
        Self { bytes: &self.bytes[..end], ..self }
    }

    fn part(self) -> Part {
        Part { start: self.start as u32, length: self.bytes.len() as u32 }
    }

    fn is_empty_or_comment(self) -> bool {
        matches!(self.bytes.first(), None | Some(b'#'))
    }

    /// For a list item, the distance of its content from the dash.
    fn item(self) -> Option<usize> {
        let after = self.bytes.strip_prefix(b"-")?;
        let spaces = spaces(after);
        (spaces > 0 || after.is_empty()).then_some(1 + spaces)
    }
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == b' ').count()
}

fn without_spaces_at_end(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().rev().take_while(|byte| **byte == b' ').count();
    &bytes[..bytes.len() - spaces]
}

/// The position of the next byte of a kind. Whole pieces at first, of which the compiler compares all bytes at once.
fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    let has = |piece: &&[u8; 16]| piece.iter().fold(false, |any, byte| any | (*byte == wanted));
    let passed = 16 * bytes.as_chunks().0.iter().take_while(|piece| !has(piece)).count();
    bytes[passed..].iter().position(|byte| *byte == wanted).map(|position| passed + position)
}

struct Reader<'a, 't> {
    bytes: &'a [u8],
    /// Where the next line starts.
    next: usize,
    /// Of the last line that was read.
    number: u32,
    line: Option<Line<'a>>,
    depth: usize,
    tree: &'t mut Tree,
}

impl<'a> Reader<'a, '_> {
    /// Moves to the next line that is neither blank nor a comment.
    fn advance(&mut self) {
        self.line = None;
        while self.line.is_none() && self.next < self.bytes.len() {
            let rest = &self.bytes[self.next..];
            let length = position(rest, b'\n').unwrap_or(rest.len());
            let indent = spaces(&rest[..length]);
            let bytes = without_spaces_at_end(&rest[indent..length]);
            let content = Text { start: self.next + indent, bytes };
            self.next += length + 1;
            self.number += 1;
            self.line = (!content.is_empty_or_comment()).then(|| Line {
                number: self.number,
                indent,
                content,
                item: content.item(),
            });
        }
    }

    fn block(&mut self, key: Key) -> Result<(), NotPlain> {
        let line = self.line.ok_or(NotPlain)?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(NotPlain);
        }
        let kind = if line.item.is_some() { Kind::List } else { Kind::Map };
        let place = self.tree.open(line.number, kind, key);
        let read = if kind == Kind::List { self.list(line.indent) } else { self.map(line.indent, place) };
        read?;
        self.tree.close(place);
        self.depth -= 1;
        Ok(())
    }

    fn map(&mut self, indent: usize, place: usize) -> Result<(), NotPlain> {
        while let Some(line) = self.line.filter(|line| line.indent == indent && line.item.is_none()) {
            let (key, value) = split_entry(line.content).ok_or(NotPlain)?;
            if self.has_key(place, key.bytes)? {
                return Err(NotPlain);
            }
            self.advance();
            self.value(value, line, Some(Key { line: line.number, text: key.part() }))?;
        }
        Ok(())
    }

    fn has_key(&self, map: usize, key: &[u8]) -> Result<bool, NotPlain> {
        let (mut place, mut count) = (map + 1, 0);
        while let Some(cell) = self.tree.cells.get(place) {
            let Part { start, length } = cell.key.text;
            if length as usize == key.len() && self.bytes[start as usize..][..key.len()] == *key {
                return Ok(true);
            }
            (place, count) = (place + cell.size as usize, count + 1);
        }
        if count < MOST_KEYS { Ok(false) } else { Err(NotPlain) }
    }

    fn list(&mut self, indent: usize) -> Result<(), NotPlain> {
        while let Some(line) = self.line.filter(|line| line.indent == indent) {
            let Some(offset) = line.item else { break };
            self.list_item(line, offset)?;
        }
        Ok(())
    }

    /// `- key: value` opens a mapping whose further keys stand below the first one.
    fn list_item(&mut self, line: Line<'a>, offset: usize) -> Result<(), NotPlain> {
        let content = line.content.after(offset);
        if split_entry(content).is_some() {
            self.line = Some(Line { indent: line.indent + offset, content, item: None, ..line });
            return self.block(Key::default());
        }
        self.advance();
        self.value(content, line, None)
    }

    /// The value behind a key or a dash of a line. A list may stand under its key without further indentation.
    fn value(&mut self, text: Text<'a>, line: Line<'a>, key: Option<Key>) -> Result<(), NotPlain> {
        let deeper = self.line.is_some_and(|next| next.indent > line.indent);
        let beside = || self.line.is_some_and(|next| next.indent == line.indent && next.item.is_some());
        let has_block = deeper || (key.is_some() && beside());
        let key = key.unwrap_or_default();
        match text.is_empty_or_comment() {
            true if has_block => return self.block(key),
            true => self.tree.cells.push(Cell::null(line.number, key)),
            false if deeper => return Err(NotPlain),
            false => {
                let (kind, text) = scalar(text)?;
                self.tree.cells.push(Cell::scalar(line.number, kind, text.part(), key));
            }
        }
        Ok(())
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
fn split_entry(content: Text<'_>) -> Option<(Text<'_>, Text<'_>)> {
    let end = content.bytes.iter().position(|byte| !IS_IN_KEY[usize::from(*byte)])?;
    let key = content.until(end);
    let value = content.bytes[end..].strip_prefix(b":")?;
    let spaces = spaces(value);
    let separated = spaces > 0 || value.is_empty();
    let surely_text =
        key.bytes.first().is_some_and(u8::is_ascii_alphabetic) && !key.bytes.eq_ignore_ascii_case(b"null");
    (separated && surely_text).then(|| (key, content.after(end + 1 + spaces)))
}

fn scalar(text: Text<'_>) -> Result<(Kind, Text<'_>), NotPlain> {
    match text.bytes[0] {
        quote @ (b'"' | b'\'') => quoted(text, quote),
        b'{' if text.bytes == b"{}" => Ok((Kind::Map, text.until(0))),
        b'[' if text.bytes == b"[]" => Ok((Kind::List, text.until(0))),
        first if first.is_ascii_alphanumeric() || b"./_".contains(&first) => plain(text),
        _ => Err(NotPlain),
    }
}

fn quoted(text: Text<'_>, quote: u8) -> Result<(Kind, Text<'_>), NotPlain> {
    let inner = text.after(1);
    let end = position(inner.bytes, quote).ok_or(NotPlain)?;
    let (inner, after) = (inner.until(end), &inner.bytes[end + 1..]);
    let simple = quote == b'\'' || position(inner.bytes, b'\\').is_none();
    let spaces = spaces(after);
    let ended = after.is_empty() || spaces > 0 && matches!(after.get(spaces), None | Some(b'#'));
    if simple && ended { Ok((Kind::Quoted, inner)) } else { Err(NotPlain) }
}

fn plain(text: Text<'_>) -> Result<(Kind, Text<'_>), NotPlain> {
    let text = without_comment(text);
    let has_key = |colon: usize| matches!(text.bytes.get(colon + 1), None | Some(b' '));
    let mut colons = text.bytes.iter().enumerate().filter(|(_, byte)| **byte == b':');
    let is_null = text.bytes.eq_ignore_ascii_case(b"null");
    match colons.any(|(colon, _)| has_key(colon)) {
        true => Err(NotPlain),
        false if is_null => Ok((Kind::Null, text.until(0))),
        false => Ok((Kind::Plain, text)),
    }
}

fn without_comment(text: Text<'_>) -> Text<'_> {
    let mut marks = text.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'#');
    let comment = marks.find(|(mark, _)| text.bytes[..*mark].ends_with(b" "));
    comment.map_or(text, |(mark, _)| text.until(without_spaces_at_end(&text.bytes[..mark]).len()))
}
