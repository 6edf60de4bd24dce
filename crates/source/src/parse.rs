//! From the documents of a file to objects.

use std::sync::Arc;

use crate::convert::context::{Context, Defaults, Flaw, Reading};
use crate::convert::identity::identify;
use crate::convert::{endpoints, node, pod, service, slice};
use crate::intern::Interner;
use crate::object::{Kind, Object, ObjectId};
use crate::reading::FileContent;
use crate::report::{Ignored, Problem};
use crate::spec::{self, HasMetadata, Header};
use crate::yaml::document::{ReadError, Reader};

/// What a document became. Without an object it is malformed.
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

pub(crate) fn convert_all(
    file: &Arc<str>,
    content: &FileContent,
    defaults: Defaults<'_>,
    names: &mut Interner,
) -> ParsedFile {
    let mut parsed = ParsedFile::default();
    for document in &content.documents {
        let context = &mut Context::new(Reading::Strict, names);
        parsed.add(file, &document.reader(&content.text, &content.trees), defaults, context);
    }
    parsed
}

impl ParsedFile {
    fn add(&mut self, file: &Arc<str>, reader: &Reader<'_>, defaults: Defaults<'_>, context: &mut Context<'_>) {
        let header = match reader.header() {
            Ok(None) => return,
            Ok(Some(header)) if header.kind.is_empty() => {
                let reason = "kind: a kind is required".to_owned();
                return self.add_object(file, reader.line(), None, Err(ReadError { line: reader.line(), reason }));
            }
            Ok(Some(header)) => header,
            Err(error) => return self.add_object(file, reader.line(), None, Err(error)),
        };
        let Some(kind) = known(&header) else { return self.ignored.push(ignored(file, reader.line(), header)) };
        let (id, object) = match convert(kind, reader, defaults, context) {
            Ok((id, object)) => (Some(id), Ok(object)),
            Err(error) => (identify(kind, &header.metadata.into(), context.names).ok(), Err(error)),
        };
        for flaw in context.omitted.drain(..) {
            self.problems.push(problem(file, id.as_ref(), located(reader, &flaw)));
        }
        self.add_object(file, reader.line(), id, object);
    }

    fn add_object(&mut self, file: &Arc<str>, line: u32, id: Option<ObjectId>, object: Result<Object, ReadError>) {
        let object = object.map_err(|error| self.problems.push(problem(file, id.as_ref(), error))).ok();
        self.documents.push(Parsed { line, id, object });
    }
}

fn problem(file: &Arc<str>, id: Option<&ObjectId>, error: ReadError) -> Problem {
    let object = id.map(ObjectId::to_string);
    Problem { file: file.clone(), line: error.line, object, reason: error.reason }
}

fn ignored(file: &Arc<str>, line: u32, header: Header) -> Ignored {
    let (namespace, name) = (header.metadata.namespace, header.metadata.name);
    let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    Ignored { file: file.clone(), line, kind: header.kind, name }
}

/// A kind counts only in its own API group: there are other Services and Nodes. An absent version is accepted.
fn known(header: &Header) -> Option<Kind> {
    let (kind, version) = match &*header.kind {
        "Service" => (Kind::Service, "v1"),
        "EndpointSlice" => (Kind::EndpointSlice, "discovery.k8s.io/v1"),
        "Endpoints" => (Kind::Endpoints, "v1"),
        "Pod" => (Kind::Pod, "v1"),
        "Node" => (Kind::Node, "v1"),
        "Namespace" => (Kind::Namespace, "v1"),
        _ => return None,
    };
    (header.api_version.is_empty() || header.api_version == version).then_some(kind)
}

fn convert(
    kind: Kind,
    reader: &Reader<'_>,
    defaults: Defaults<'_>,
    context: &mut Context<'_>,
) -> Result<(ObjectId, Object), ReadError> {
    match kind {
        Kind::Service => typed(kind, reader, context, |object: spec::Service, id, context| {
            Ok(Object::Service(Box::new(service::requested(&object, id, defaults, context)?)))
        }),
        Kind::EndpointSlice => typed(kind, reader, context, |object, id, context| {
            Ok(Object::Slice(Box::new(slice::convert(&object, id, context)?)))
        }),
        Kind::Endpoints => typed(kind, reader, context, |object, id, context| {
            Ok(Object::Endpoints(endpoints::convert(object, &id.namespace, context)?))
        }),
        Kind::Pod => typed(kind, reader, context, |object, _, context| {
            Ok(Object::Pod(Box::new(pod::convert(&object, defaults, context)?)))
        }),
        Kind::Node => typed(kind, reader, context, |object, _, context| {
            Ok(Object::Node(Box::new(node::convert(&object, context)?)))
        }),
        Kind::Namespace => typed(kind, reader, context, |_: spec::Identity, _, _| Ok(Object::Namespace)),
    }
}

fn typed<T: serde::de::DeserializeOwned + HasMetadata>(
    kind: Kind,
    reader: &Reader<'_>,
    context: &mut Context<'_>,
    convert: impl Fn(T, &ObjectId, &mut Context<'_>) -> Result<Object, Flaw>,
) -> Result<(ObjectId, Object), ReadError> {
    let object: T = reader.read()?;
    let id = identify(kind, object.metadata(), context.names).map_err(|flaw| located(reader, &flaw))?;
    let object = convert(object, &id, context).map_err(|flaw| located(reader, &flaw))?;
    Ok((id, object))
}

fn located(reader: &Reader<'_>, flaw: &Flaw) -> ReadError {
    ReadError { line: reader.line_of(&flaw.path), reason: flaw.to_string() }
}
