//! One file's text becomes objects, problems and documents of no concern.

use std::sync::Arc;

use crate::convert::{self, Context, Converted};
use crate::object::{Kind, Object, ObjectId};
use crate::read::document::{self, Document};
use crate::read::schema::Header;
use crate::read::{self, Unreadable, peek};
use crate::report::{Ignored, Problem};

/// One document's outcome. Without an object it is broken.
pub(crate) struct Parsed {
    pub(crate) line: u32,
    pub(crate) id: Option<ObjectId>,
    pub(crate) object: Option<Object>,
}

#[derive(Default)]
pub(crate) struct ParsedFile {
    pub(crate) documents: Vec<Parsed>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) ignored: Vec<Ignored>,
}

pub(crate) fn parse(file: &Arc<str>, text: &str, context: &mut Context<'_>) -> ParsedFile {
    let mut parsed = ParsedFile::default();
    for document in document::split(text) {
        parsed.add(file, &document, context);
    }
    parsed
}

impl ParsedFile {
    fn add(&mut self, file: &Arc<str>, document: &Document<'_>, context: &mut Context<'_>) {
        match sort(document) {
            Ok(Sort::Known(kind)) => self.add_converted(file, document.line, convert::convert(kind, document, context)),
            Ok(Sort::Other(header)) => self.ignored.push(ignored(file, document.line, header)),
            Ok(Sort::Nothing) => {}
            Err(unreadable) => {
                self.problems.push(problem(file, None, unreadable));
                self.documents.push(Parsed { line: document.line, id: None, object: None });
            }
        }
    }

    fn add_converted(&mut self, file: &Arc<str>, line: u32, converted: Converted) {
        let Converted { id, object, skipped } = converted;
        let complaints = skipped.into_iter().map(|skipped| problem(file, id.as_ref(), skipped));
        self.problems.extend(complaints);
        let object = match object {
            Ok(object) => Some(object),
            Err(unreadable) => {
                self.problems.push(problem(file, id.as_ref(), unreadable));
                None
            }
        };
        self.documents.push(Parsed { line, id, object });
    }
}

fn problem(file: &Arc<str>, id: Option<&ObjectId>, unreadable: Unreadable) -> Problem {
    let object = id.map(ObjectId::to_string);
    Problem { file: file.clone(), line: unreadable.line, object, reason: unreadable.reason }
}

fn ignored(file: &Arc<str>, line: u32, header: Header) -> Ignored {
    let metadata = header.metadata.unwrap_or_default();
    let name = metadata.name.unwrap_or_default();
    let name = metadata.namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
    Ignored { file: file.clone(), line, kind: header.kind.unwrap_or_default(), name }
}

enum Sort {
    Known(Kind),
    Other(Header),
    /// A document that says nothing, such as `null`.
    Nothing,
}

fn sort(document: &Document<'_>) -> Result<Sort, Unreadable> {
    if let Some(kind) = peeked(document) {
        return Ok(Sort::Known(kind));
    }
    let header = read::read::<Option<Header>>(document);
    let Some(mut header) = header.or_else(|error| sketched(document).ok_or(error))? else { return Ok(Sort::Nothing) };
    header.kind = header.kind.or_else(|| document.kind.clone());
    let Some(kind) = header.kind.as_deref() else {
        return Err(Unreadable { line: document.line, reason: "kind: a kind is required".to_owned() });
    };
    Ok(known(kind, header.api_version.as_deref()).map_or_else(|| Sort::Other(header), Sort::Known))
}

/// The usual case without parsing: the kind stands on a line of its own.
fn peeked(document: &Document<'_>) -> Option<Kind> {
    if document.json {
        return None;
    }
    known(peek::top_level(&document.text, "kind")?, peek::top_level(&document.text, "apiVersion"))
}

/// A document that cannot be parsed may still say what it is, and a broken one of no concern is of no concern.
fn sketched(document: &Document<'_>) -> Option<Option<Header>> {
    let header = read::identity(document);
    header.kind.is_some().then_some(Some(header))
}

/// A kind is ours only in its own API group: there are other Services and Nodes. An absent version is forgiven.
fn known(kind: &str, version: Option<&str>) -> Option<Kind> {
    let (kind, group) = match kind {
        "Service" => (Kind::Service, "v1"),
        "EndpointSlice" => (Kind::EndpointSlice, "discovery.k8s.io/v1"),
        "Endpoints" => (Kind::Endpoints, "v1"),
        "Pod" => (Kind::Pod, "v1"),
        "Node" => (Kind::Node, "v1"),
        "Namespace" => (Kind::Namespace, "v1"),
        _ => return None,
    };
    version.is_none_or(|version| version == group).then_some(kind)
}
