//! The tree of a document, or of several: a list of cells.

use crate::error::Error;

/// The values of a document, each before the values within it; other documents may follow. Texts are positions in the text that
/// was read, which is given again to look at the tree: so a tree is one piece of memory, and may go where its text goes.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(crate) cells: Vec<Cell>,
    /// Texts that are not in the document as they are, for example because of escapes.
    made: String,
}

/// A value, and the key in front of it if it is in a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) line: u32,
    pub(crate) kind: Kind,
    /// Of a scalar.
    pub(crate) text: Part,
    pub(crate) key: Key,
    /// How many cells this value has: its own and those of the values within it.
    pub(crate) size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A plain scalar that is null. It has no text.
    Null,
    Plain,
    Quoted,
    List,
    Map,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Key {
    pub(crate) line: u32,
    pub(crate) text: Part,
}

/// A part of the document, or of the texts that were made: then its start has [`MADE`] added.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

const MADE: u32 = 1 << 31;

/// Cells, of 32 bytes each.
const MOST_ROOM: usize = 1 << 18;

/// So that every position has its number.
pub(crate) const LONGEST: usize = MADE as usize - 1;

pub(crate) fn too_long(line: u32) -> Error {
    Error::new(line, format!("the text is longer than {LONGEST} bytes"))
}

impl Cell {
    pub(crate) fn scalar(line: u32, kind: Kind, text: Part, key: Key) -> Self {
        Self { line, kind, text, key, size: 1 }
    }

    /// An absent value.
    pub(crate) fn null(line: u32, key: Key) -> Self {
        Self::scalar(line, Kind::Null, Part::default(), key)
    }
}

impl Tree {
    /// With room for the documents of a text of that length, most lines of which have 20 bytes and more. A huge text gets room as
    /// it is read: it may not be YAML at all.
    pub fn for_text_of(length: usize) -> Self {
        Self { cells: Vec::with_capacity((length / 16 + 8).min(MOST_ROOM)), made: String::new() }
    }

    /// Adds all documents of another tree.
    pub(crate) fn append(&mut self, other: Self) -> Result<(), Error> {
        let shift = self.made.len();
        if shift + other.made.len() > LONGEST {
            return Err(too_long(other.cells[0].line));
        }
        let moved = |part: Part| Part { start: part.start + if part.start < MADE { 0 } else { shift as u32 }, ..part };
        self.made.push_str(&other.made);
        self.cells.extend(other.cells.into_iter().map(|cell| {
            let key = Key { text: moved(cell.key.text), ..cell.key };
            Cell { text: moved(cell.text), key, ..cell }
        }));
        Ok(())
    }

    pub(crate) fn null() -> Self {
        Self { cells: vec![Cell::null(1, Key::default())], made: String::new() }
    }

    /// Begins a list or a mapping, which [`Self::close`] ends.
    pub(crate) fn open(&mut self, line: u32, kind: Kind, key: Key) -> usize {
        self.cells.push(Cell { size: 0, ..Cell::scalar(line, kind, Part::default(), key) });
        self.cells.len() - 1
    }

    pub(crate) fn close(&mut self, place: usize) {
        self.cells[place].size = (self.cells.len() - place) as u32;
    }

    /// A text that need not be in the document. `None` if there are too many of these.
    pub(crate) fn part(&mut self, text: &str, part: &str) -> Option<Part> {
        let length = u32::try_from(part.len()).ok()?;
        let offset = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        if offset.checked_add(part.len()).is_some_and(|end| end <= text.len()) {
            return Some(Part { start: u32::try_from(offset).ok()?, length });
        }
        let start = u32::try_from(self.made.len()).ok()?;
        self.made.push_str(part);
        (self.made.len() <= LONGEST).then_some(Part { start: start + MADE, length })
    }

    pub(crate) fn text<'t>(&'t self, text: &'t str, part: Part) -> &'t str {
        let (text, start) = if part.start < MADE { (text, part.start) } else { (&*self.made, part.start - MADE) };
        text.get(start as usize..(start + part.length) as usize).unwrap_or_default()
    }
}
