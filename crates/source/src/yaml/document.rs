//! One object's text, and how it is read.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::full::{self, read_json, read_yaml};
use super::node::Node;
use super::{lines, plain};
use crate::spec::Header;

pub(crate) use full::ReadError;

/// The text of one object, with the line of the file that it starts on.
pub(crate) struct Document<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) line: u32,
    pub(crate) is_json: bool,
    /// The kind of the items of a typed list, which need not repeat it.
    pub(crate) item_kind: Option<String>,
}

impl Document<'_> {
    /// A document is read several times, for its header and as an object; plain YAML is parsed only once for that.
    pub(crate) fn reader(&self) -> Reader<'_> {
        let plain = if self.is_json { None } else { plain::parse(&self.text).ok() };
        Reader { document: self, plain }
    }
}

pub(crate) struct Reader<'a> {
    document: &'a Document<'a>,
    plain: Option<Node<'a>>,
}

impl Reader<'_> {
    pub(crate) fn line(&self) -> u32 {
        self.document.line
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        let plain = self.plain.as_ref().and_then(|node| T::deserialize(node).ok());
        plain.map_or_else(|| self.read_fully(), Ok)
    }

    fn read_fully<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        let text = &self.document.text;
        let read = if self.document.is_json { read_json(text) } else { read_yaml(text) };
        read.map_err(|error| ReadError { line: self.document.line + error.line.max(1) - 1, reason: error.reason })
    }

    /// Kind and name. `None` for a document without content, such as `null`. A document that is malformed elsewhere, or of
    /// a style that takes long to read, is identified by its heading.
    pub(crate) fn header(&self) -> Result<Option<Header>, ReadError> {
        let heading = if self.plain.is_none() { self.heading() } else { None };
        let mut header = heading.map_or_else(|| self.read(), |heading| Ok(Some(heading)))?;
        if let (Some(header), Some(kind)) = (&mut header, &self.document.item_kind) {
            header.kind = if header.kind.is_empty() { kind.clone() } else { std::mem::take(&mut header.kind) };
        }
        Ok(header)
    }

    fn heading(&self) -> Option<Header> {
        let heading = if self.document.is_json { None } else { heading(&self.document.text) };
        heading.filter(|heading| !heading.kind.is_empty())
    }

    /// The line of a field such as `spec.ports[0].port`, or of the nearest field around it that is there.
    pub(crate) fn line_of(&self, path: &str) -> u32 {
        self.document.line + lines::line_of(&self.document.text, path) - 1
    }
}

/// The header of a document in block style, from those lines alone.
pub(super) fn heading(text: &str) -> Option<Header> {
    let lines = heading_lines(text);
    let plain = plain::parse(&lines).and_then(|node| Header::deserialize(&node));
    plain.ok().or_else(|| read_yaml(&lines).ok())
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
