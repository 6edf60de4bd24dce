//! One object's text, and how it is read.

use std::borrow::Cow;

use portolan_yaml::Node;
use serde::de::DeserializeOwned;

use crate::spec::Header;

/// Why a text cannot be read, and on which line.
#[derive(Clone, Debug)]
pub(crate) struct ReadError {
    pub(crate) line: u32,
    pub(crate) reason: String,
}

/// One object, with the line of the file that it starts on.
pub(crate) struct Document<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) line: u32,
    /// The kind of the items of a typed list, which need not repeat it.
    pub(crate) item_kind: Option<String>,
}

pub(crate) enum Content<'a> {
    Yaml(Cow<'a, str>),
    Json(&'a str),
    /// An item of a list that was parsed as a whole: the list's text, the line that the text starts on, and the item.
    Item(&'a str, u32, Node<'a>),
}

impl<'a> Document<'a> {
    pub(crate) fn new(content: Content<'a>, line: u32) -> Self {
        Self { content, line, item_kind: None }
    }

    /// A document is read several times, for its header and as an object; YAML is parsed only once for that.
    pub(crate) fn reader(&self) -> Reader<'_> {
        let (text, first_line, tree) = match &self.content {
            Content::Yaml(text) => (&**text, self.line, Tree::of(portolan_yaml::read(text), text)),
            Content::Json(text) => (*text, self.line, Tree::Json),
            Content::Item(text, first_line, node) => (*text, *first_line, Tree::Known(node)),
        };
        Reader { document: self, text, first_line, tree }
    }
}

pub(crate) struct Reader<'a> {
    document: &'a Document<'a>,
    text: &'a str,
    /// The line of the file that the text starts on.
    first_line: u32,
    tree: Tree<'a>,
}

enum Tree<'a> {
    Parsed(Node<'a>),
    Known(&'a Node<'a>),
    Malformed(ReadError),
    /// Types are read from the text itself.
    Json,
}

impl<'a> Tree<'a> {
    fn of(read: Result<Node<'a>, portolan_yaml::Error>, text: &str) -> Self {
        read.map_or_else(|error| Self::Malformed(explained(error, text)), Self::Parsed)
    }
}

impl Reader<'_> {
    pub(crate) fn line(&self) -> u32 {
        self.document.line
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        let read = match &self.tree {
            Tree::Json => read_json(self.text),
            Tree::Malformed(error) => Err(error.clone()),
            Tree::Parsed(node) => node.read().map_err(|error| explained(error, self.text)),
            Tree::Known(node) => node.read().map_err(|error| explained(error, self.text)),
        };
        read.map_err(|error| ReadError { line: self.first_line + error.line.max(1) - 1, reason: error.reason })
    }

    /// Kind and name. `None` for a document without content, such as `null`. A document that is malformed elsewhere is
    /// identified by its heading.
    pub(crate) fn header(&self) -> Result<Option<Header>, ReadError> {
        let mut header = self.read().or_else(|error| self.heading().map(Some).ok_or(error))?;
        if let (Some(header), Some(kind)) = (&mut header, &self.document.item_kind) {
            header.kind = if header.kind.is_empty() { kind.clone() } else { std::mem::take(&mut header.kind) };
        }
        Ok(header)
    }

    fn heading(&self) -> Option<Header> {
        let Content::Yaml(text) = &self.document.content else { return None };
        heading(text).filter(|heading| !heading.kind.is_empty())
    }

    /// The line of a field such as `spec.ports[0].port`, or of the nearest field around it that is there.
    pub(crate) fn line_of(&self, path: &str) -> u32 {
        let line = match &self.tree {
            Tree::Parsed(node) => node.line_of(path),
            Tree::Known(node) => node.line_of(path),
            Tree::Malformed(_) => 1,
            // Most JSON is YAML.
            Tree::Json => portolan_yaml::read(self.text).map_or(1, |node| node.line_of(path)),
        };
        self.first_line + line - 1
    }
}

fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    // From bytes, as in `cluster/wire.rs`: the code for a type is generated again for another kind of input.
    serde_json::from_slice(text.as_bytes()).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split_once(" at line ").map_or(&*reason, |(before, _)| before).to_owned();
        ReadError { line: error.line() as u32, reason }
    })
}

/// The error with the text of its line.
fn explained(error: portolan_yaml::Error, text: &str) -> ReadError {
    let content = text.lines().nth(error.line.max(1) as usize - 1).unwrap_or("").trim();
    let shown: String = content.chars().take(60).collect();
    let reason = if shown.is_empty() { error.reason } else { format!("{}: {shown:?}", error.reason) };
    ReadError { line: error.line, reason }
}

/// The header of a document in block style, from those lines alone.
pub(super) fn heading(text: &str) -> Option<Header> {
    portolan_yaml::read(&heading_lines(text)).and_then(|node| node.read()).ok()
}

/// The top-level lines `apiVersion` and `kind`, and `metadata` with `name` and `namespace` below it.
fn heading_lines(text: &str) -> String {
    let mut lines = content_lines(text).peekable();
    let top = lines.peek().map_or(0, |(indent, _)| *indent);
    let (mut is_metadata, mut nested, mut heading) = (false, None, String::new());
    for (indent, content) in lines {
        let keys: &[&str] = if indent == top {
            (is_metadata, nested) = (content.starts_with("metadata:"), None);
            &["apiVersion:", "kind:", "metadata:"]
        } else if is_metadata && indent == *nested.get_or_insert(indent) {
            &["name:", "namespace:"]
        } else {
            &[]
        };
        if keys.iter().any(|key| content.starts_with(key)) {
            heading.push_str(&format!("{:indent$}{content}\n", ""));
        }
    }
    heading
}

/// Lines with content, each with its indentation.
fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines =
        text.lines().map(|line| (line.len() - line.trim_start_matches(' ').len(), line.trim_start_matches(' ')));
    lines.filter(|(_, content)| {
        let is_filler = content.is_empty() || content.starts_with(['#', '%']) || content.starts_with("---");
        !is_filler
    })
}
