//! The reader for all of YAML 1.2: builds the tree from the events of `granit-parser`.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScanError, Span, StrInput};

use crate::error::Error;
use crate::mapping::{DuplicateKeys, Mapping};
use crate::node::{Content, Node};
use crate::tag;

/// Deeper than any document needs; a limit protects the stack.
const DEEPEST: usize = 100;

/// How many nodes the anchors and aliases of a document may copy: a small text must not become a huge tree.
const MOST_COPIES: usize = 100_000;

pub(crate) fn read_one(text: &str) -> Result<Node<'_>, Error> {
    let mut documents = Documents::new(text, DuplicateKeys::Refused);
    let first = documents.next().unwrap_or_else(|| Ok(Node::null(1)))?;
    match documents.next() {
        Some(second) => Err(Error::new(second?.line, "there is more than one document")),
        None => Ok(first),
    }
}

/// The documents of a text, one after the other. An error is the last item.
pub(crate) struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    duplicate_keys: DuplicateKeys,
    failed: bool,
}

impl<'a> Documents<'a> {
    pub(crate) fn new(text: &'a str, duplicate_keys: DuplicateKeys) -> Self {
        let options = granit_parser::options! { flow_nesting_limit: DEEPEST, block_nesting_limit: DEEPEST };
        Self { parser: Parser::new_from_str_with_options(text, options), duplicate_keys, failed: false }
    }

    fn document(&mut self) -> Result<Option<Node<'a>>, Error> {
        let mut builder = Builder::new(self.duplicate_keys);
        while let Some(event) = self.parser.next_event() {
            let (event, span) = event.map_err(|error| refused(&error))?;
            if event == Event::DocumentEnd {
                break;
            }
            builder.add(event, &span)?;
        }
        Ok(builder.root)
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = Result<Node<'a>, Error>;

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
    duplicate_keys: DuplicateKeys,
    root: Option<Node<'a>>,
    open: Vec<Open<'a>>,
    anchors: HashMap<usize, Node<'a>>,
    copies: usize,
}

/// A list or a mapping that has begun.
struct Open<'a> {
    line: u32,
    anchor: usize,
    children: Children<'a>,
}

enum Children<'a> {
    Items(Vec<Node<'a>>),
    Entries(Mapping<'a>),
}

impl<'a> Builder<'a> {
    fn new(duplicate_keys: DuplicateKeys) -> Self {
        Self { duplicate_keys, root: None, open: Vec::new(), anchors: HashMap::new(), copies: 0 }
    }

    fn add(&mut self, event: Event<'a>, span: &Span) -> Result<(), Error> {
        let line = line(span.start.line());
        let located = |reason: String| Error::new(line, reason);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let content = tag::scalar(text, style, &tag).map_err(located)?;
                self.complete(Node { line, content }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                tag::collection(&tag, "seq").map_err(located)?;
                self.begin(Open { line, anchor, children: Children::Items(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                tag::collection(&tag, "map").map_err(located)?;
                self.begin(Open { line, anchor, children: Children::Entries(Mapping::default()) })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, line),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open<'a>) -> Result<(), Error> {
        self.check_depth(open.line, 1)?;
        self.open.push(open);
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
        let content = match open.children {
            Children::Items(items) => Content::List(items),
            Children::Entries(mapping) => mapping.finish(self.duplicate_keys)?,
        };
        self.complete(Node { line: open.line, content }, open.anchor)
    }

    fn complete(&mut self, node: Node<'a>, anchor: usize) -> Result<(), Error> {
        // Nodes without an anchor have number 0.
        if anchor != 0 {
            self.count_copy(&node, node.line)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.push(node)
    }

    fn alias(&mut self, anchor: usize, line: u32) -> Result<(), Error> {
        let node = self.anchors.get(&anchor).ok_or_else(|| Error::new(line, "an alias refers to a node around it"))?;
        self.check_depth(line, node.extent().1)?;
        let node = Node { line, content: node.content.clone() };
        self.count_copy(&node, line)?;
        self.push(node)
    }

    fn count_copy(&mut self, node: &Node<'a>, line: u32) -> Result<(), Error> {
        self.copies += node.extent().0;
        if self.copies > MOST_COPIES {
            return Err(Error::new(line, format!("anchors and aliases copy more than {MOST_COPIES} values")));
        }
        Ok(())
    }

    fn push(&mut self, node: Node<'a>) -> Result<(), Error> {
        match self.open.last_mut().map(|open| &mut open.children) {
            None => self.root = Some(node),
            Some(Children::Items(items)) => items.push(node),
            Some(Children::Entries(mapping)) => mapping.push(node)?,
        }
        Ok(())
    }
}
