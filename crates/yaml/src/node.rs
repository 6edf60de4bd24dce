//! A value of a tree, and the values within it.

use crate::scalar::Scalar;
use crate::tree::{Cell, Kind, Tree};

/// A value of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Node<'t> {
    text: &'t str,
    tree: &'t Tree,
    place: usize,
}

/// Scalars are text: what a plain one means depends on the type that is read from it.
pub enum Content<'t> {
    Plain(&'t str),
    /// In quotes, or a block scalar: always a string.
    Quoted(&'t str),
    List(Items<'t>),
    Map(Entries<'t>),
}

/// A key of a mapping, and its value.
pub struct Entry<'t> {
    /// Of the key.
    pub line: u32,
    pub key: &'t str,
    pub value: Node<'t>,
}

impl Tree {
    /// The first document. The text must be the one that was read.
    pub fn root<'t>(&'t self, text: &'t str) -> Node<'t> {
        self.node(text, 0)
    }

    /// The value at a place that [`Self::add`] or [`Node::place`] returned.
    pub fn node<'t>(&'t self, text: &'t str, place: usize) -> Node<'t> {
        Node { text, tree: self, place }
    }
}

impl<'t> Node<'t> {
    fn cell(&self) -> &'t Cell {
        &self.tree.cells[self.place]
    }

    /// Where the value is in its tree.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The line that it starts on, counted from 1.
    pub fn line(&self) -> u32 {
        self.cell().line
    }

    pub fn content(&self) -> Content<'t> {
        let cell = self.cell();
        match cell.kind {
            Kind::Null | Kind::Plain => Content::Plain(self.tree.text(self.text, cell.text)),
            Kind::Quoted => Content::Quoted(self.tree.text(self.text, cell.text)),
            Kind::List => Content::List(self.children()),
            Kind::Map => Content::Map(Entries(self.children())),
        }
    }

    /// The values directly within this one.
    fn children(&self) -> Items<'t> {
        let end = self.place + self.cell().size as usize;
        Items { next: Node { place: self.place + 1, ..*self }, end }
    }

    fn key(&self) -> &'t str {
        self.tree.text(self.text, self.cell().key.text)
    }

    pub fn is_null(&self) -> bool {
        self.cell().kind == Kind::Null
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<Self> {
        self.entry(key).map(|entry| entry.value)
    }

    fn entry(&self, key: &str) -> Option<Entry<'t>> {
        let Content::Map(mut entries) = self.content() else { return None };
        entries.find(|entry| entry.key == key)
    }

    /// The line of a field such as `spec.ports[0].port`, or of the nearest field around it that is there.
    pub fn line_of(&self, path: &str) -> u32 {
        let (mut node, mut line) = (*self, self.line());
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            let Some((found, inner)) = node.child(step) else { break };
            (line, node) = (found, inner);
        }
        line
    }

    fn child(&self, step: &str) -> Option<(u32, Self)> {
        if let Content::List(mut items) = self.content() {
            return items.nth(step.parse::<usize>().ok()?).map(|item| (item.line(), item));
        }
        self.entry(step).map(|entry| (entry.line, entry.value))
    }

    /// What kind of value this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.content() {
            Content::Plain(text) => Scalar::of(text).kind(),
            Content::Quoted(_) => "a string",
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }
}

/// The items of a list.
#[derive(Clone, Copy)]
pub struct Items<'t> {
    next: Node<'t>,
    end: usize,
}

impl<'t> Iterator for Items<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        let item = (self.next.place < self.end).then_some(self.next)?;
        self.next.place += item.cell().size as usize;
        Some(item)
    }
}

/// The entries of a mapping, in the order of the file.
#[derive(Clone, Copy)]
pub struct Entries<'t>(Items<'t>);

impl<'t> Iterator for Entries<'t> {
    type Item = Entry<'t>;

    fn next(&mut self) -> Option<Entry<'t>> {
        let value = self.0.next()?;
        Some(Entry { line: value.cell().key.line, key: value.key(), value })
    }
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        fn facts<'t>(node: &Node<'t>) -> impl Iterator<Item = (u32, Kind, &'t str, u32, &'t str, u32)> {
            let (text, tree) = (node.text, node.tree);
            let facts = move |cell: &'t Cell| {
                let (own, key) = (tree.text(text, cell.text), tree.text(text, cell.key.text));
                (cell.line, cell.kind, own, cell.key.line, key, cell.size)
            };
            tree.cells[node.place..node.place + node.cell().size as usize].iter().map(facts)
        }
        facts(self).eq(facts(other))
    }
}
