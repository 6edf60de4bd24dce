//! The reader for all of YAML 1.2: builds the tree from the events of `granit-parser`.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScanError, Span, StrInput};

use crate::error::Error;
use crate::mapping::{self, DuplicateKeys};
use crate::tag;
use crate::tree::{Cell, Key, Kind, LONGEST, Tree, too_long};

/// Deeper than any document needs; a limit protects the stack.
const DEEPEST: usize = 100;

/// How many nodes the anchors and aliases of a document may copy: a small text must not become a huge tree.
const MOST_COPIES: usize = 100_000;

/// The parser's number of a value without an anchor.
const NO_ANCHOR: usize = 0;

pub(crate) fn read_one(text: &str) -> Result<Tree, Error> {
    let mut documents = Documents::new(text, DuplicateKeys::Refused);
    let first = documents.next().unwrap_or_else(|| Ok(Tree::null()))?;
    match documents.next() {
        Some(second) => Err(Error::new(second?.root(text).line(), "there is more than one document")),
        None => Ok(first),
    }
}

/// The documents of a text, one after the other. An error is the last item.
pub(crate) struct Documents<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    duplicate_keys: DuplicateKeys,
    failed: bool,
}

impl<'a> Documents<'a> {
    pub(crate) fn new(text: &'a str, duplicate_keys: DuplicateKeys) -> Self {
        let options = granit_parser::options! { flow_nesting_limit: DEEPEST, block_nesting_limit: DEEPEST };
        Self { text, parser: Parser::new_from_str_with_options(text, options), duplicate_keys, failed: false }
    }

    fn document(&mut self) -> Result<Option<Tree>, Error> {
        if self.text.len() > LONGEST {
            return Err(too_long(1));
        }
        let mut builder = Builder::new(self.text, self.duplicate_keys);
        while let Some(event) = self.parser.next_event() {
            let (event, span) = event.map_err(|error| refused(&error))?;
            if event == Event::DocumentEnd {
                break;
            }
            builder.add(event, &span)?;
        }
        Ok((!builder.tree.cells.is_empty()).then_some(builder.tree))
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Tree, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let document = self.document().transpose();
        self.failed = matches!(document, Some(Err(_)));
        document
    }
}

fn refused(error: &ScanError) -> Error {
    let line = line(error.marker().line());
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(line),
        _ => Error::new(line, error.info()),
    }
}

fn too_deep(line: u32) -> Error {
    Error::new(line, format!("nested more than {DEEPEST} levels deep"))
}

fn line(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).max(1)
}

struct Builder<'a> {
    text: &'a str,
    duplicate_keys: DuplicateKeys,
    tree: Tree,
    open: Vec<Open>,
    anchors: HashMap<usize, Vec<Cell>>,
    copies: usize,
}

/// A list or a mapping that has begun.
struct Open {
    place: usize,
    anchor: usize,
    /// It stands where a key must be. That is refused at its end, because what the parser refuses within it says more.
    is_key: bool,
    is_mapping: bool,
    /// The key whose value comes next, and whether it is a merge key.
    key: Option<(Key, bool)>,
    /// Where the values of merge keys are.
    merges: Vec<usize>,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str, duplicate_keys: DuplicateKeys) -> Self {
        let (tree, open, anchors, copies) = Default::default();
        Self { text, duplicate_keys, tree, open, anchors, copies }
    }

    fn add(&mut self, event: Event<'a>, span: &Span) -> Result<(), Error> {
        let line = line(span.start.line());
        let located = |reason: String| Error::new(line, reason);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let (kind, text) = tag::scalar(text, style, &tag).map_err(located)?;
                self.scalar(kind, &text, line, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                tag::collection(&tag, "seq").map_err(located)?;
                self.begin(Kind::List, line, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                tag::collection(&tag, "map").map_err(located)?;
                self.begin(Kind::Map, line, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, line),
            _ => Ok(()),
        }
    }

    fn scalar(&mut self, kind: Kind, text: &str, line: u32, anchor: usize) -> Result<(), Error> {
        let text = if kind == Kind::Null { "" } else { text };
        let part = self.tree.part(self.text, text).ok_or_else(|| too_long(line))?;
        let cell = Cell::scalar(line, kind, part, Key::default());
        if anchor != NO_ANCHOR {
            self.remember(anchor, vec![cell])?;
        }
        self.push(&[cell])
    }

    fn begin(&mut self, kind: Kind, line: u32, anchor: usize) -> Result<(), Error> {
        self.check_depth(line, 1)?;
        let (is_key, key) = (self.awaits_key(), self.next_key());
        let place = self.tree.open(line, kind, key);
        self.open.push(Open { place, anchor, is_key, is_mapping: kind == Kind::Map, key: None, merges: Vec::new() });
        Ok(())
    }

    fn check_depth(&self, line: u32, more: usize) -> Result<(), Error> {
        if self.open.len() + more > DEEPEST {
            return Err(too_deep(line));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        if open.is_key {
            return Err(not_a_key(self.tree.cells[open.place].line));
        }
        if open.is_mapping {
            mapping::finish(&mut self.tree, self.text, open.place + 1, &open.merges, self.duplicate_keys)?;
        }
        self.tree.close(open.place);
        match open.anchor {
            NO_ANCHOR => Ok(()),
            anchor => self.remember(anchor, self.tree.cells[open.place..].to_vec()),
        }
    }

    /// Keeps a value for its aliases.
    fn remember(&mut self, anchor: usize, value: Vec<Cell>) -> Result<(), Error> {
        self.count_copy(&value)?;
        self.anchors.insert(anchor, value);
        Ok(())
    }

    fn alias(&mut self, anchor: usize, line: u32) -> Result<(), Error> {
        let cells = self.anchors.get(&anchor).ok_or_else(|| Error::new(line, "an alias refers to a node around it"))?;
        let mut cells = cells.clone();
        cells[0].line = line;
        self.check_depth(line, depth(&cells))?;
        self.count_copy(&cells)?;
        self.push(&cells)
    }

    fn count_copy(&mut self, cells: &[Cell]) -> Result<(), Error> {
        self.copies += cells.len();
        if self.copies > MOST_COPIES {
            let reason = format!("anchors and aliases copy more than {MOST_COPIES} values");
            return Err(Error::new(cells[0].line, reason));
        }
        Ok(())
    }

    /// Adds a whole value, or a key.
    fn push(&mut self, value: &[Cell]) -> Result<(), Error> {
        if self.awaits_key() {
            return self.begin_entry(value);
        }
        let (key, place) = (self.next_key(), self.tree.cells.len());
        self.tree.cells.extend(value);
        self.tree.cells[place].key = key;
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_mapping && open.key.is_none())
    }

    fn begin_entry(&mut self, key: &[Cell]) -> Result<(), Error> {
        let Cell { line, kind, text, .. } = key[0];
        let is_text = matches!(kind, Kind::Plain | Kind::Quoted);
        let is_merge = kind == Kind::Plain && self.tree.text(self.text, text) == "<<";
        let open = self.open.last_mut().filter(|_| is_text).ok_or_else(|| not_a_key(line))?;
        open.key = Some((Key { line, text }, is_merge));
        Ok(())
    }

    /// The key of the value that is added next. A list has none.
    fn next_key(&mut self) -> Key {
        let place = self.tree.cells.len();
        let Some(open) = self.open.last_mut() else { return Key::default() };
        let Some((key, is_merge)) = open.key.take() else { return Key::default() };
        open.merges.extend(is_merge.then_some(place));
        key
    }
}

fn not_a_key(line: u32) -> Error {
    Error::new(line, "a key must be a string")
}

/// How deep a value is.
fn depth(cells: &[Cell]) -> usize {
    let mut ends: Vec<usize> = Vec::new();
    let mut deepest = 0;
    for (place, cell) in cells.iter().enumerate() {
        ends.retain(|end| *end > place);
        if matches!(cell.kind, Kind::List | Kind::Map) {
            ends.push(place + cell.size as usize);
        }
        deepest = deepest.max(ends.len());
    }
    deepest
}
