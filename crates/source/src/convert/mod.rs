//! From Kubernetes' structures to ours, with the defaults and the checks of an API server.

pub(crate) mod check;
mod endpoints;
mod families;
mod node;
mod pod;
mod service;
mod slice;
mod wish;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;

use crate::intern::Interner;
use crate::object::{Kind, Object, ObjectId};
use crate::read::document::Document;
use crate::read::schema::{Metadata, NamespaceDocument};
use crate::read::{self, Unreadable, locate};

/// What is wrong with which field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    path: String,
    reason: String,
}

impl Flaw {
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }

    fn located(self, document: &Document<'_>) -> Unreadable {
        let line = locate::line_of(document, &self.path);
        Unreadable { line, reason: self.to_string() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.reason)
    }
}

/// What conversion must know of the cluster that we play.
pub(crate) struct Context<'a> {
    pub(crate) service_ranges: &'a [IpNet],
    pub(crate) node_port_range: &'a RangeInclusive<u16>,
    pub(crate) node_name: &'a str,
    pub(crate) names: &'a mut Interner,
    /// Fields that were left out of an object that is otherwise good.
    pub(crate) skipped: Vec<Flaw>,
}

/// An object, or why there is none, and what was left out of it.
pub(crate) struct Converted {
    pub(crate) id: Option<ObjectId>,
    pub(crate) object: Result<Object, Unreadable>,
    pub(crate) skipped: Vec<Unreadable>,
}

pub(crate) fn convert(kind: Kind, document: &Document<'_>, context: &mut Context<'_>) -> Converted {
    let result = match kind {
        Kind::Service => typed(document, context, service::convert),
        Kind::EndpointSlice => typed(document, context, slice::convert),
        Kind::Endpoints => typed(document, context, endpoints::convert),
        Kind::Pod => typed(document, context, pod::convert),
        Kind::Node => typed(document, context, node::convert),
        Kind::Namespace => typed(document, context, |_: NamespaceDocument, _, _| Ok(Object::Namespace)),
    };
    let skipped = context.skipped.drain(..).map(|flaw| flaw.located(document)).collect();
    match result {
        Ok((id, object)) => Converted { id: Some(id), object: Ok(object), skipped },
        Err(unreadable) => Converted { id: identity(kind, document, context), object: Err(unreadable), skipped },
    }
}

/// A document of a known kind.
trait Described: serde::de::DeserializeOwned {
    const KIND: Kind;
    fn metadata(&self) -> Option<&Metadata>;
}

fn typed<T: Described>(
    document: &Document<'_>,
    context: &mut Context<'_>,
    convert: impl Fn(T, &mut Context<'_>, &ObjectId) -> Result<Object, Flaw>,
) -> Result<(ObjectId, Object), Unreadable> {
    let content: T = read::read(document)?;
    let nothing = Metadata::default();
    let id = name(T::KIND, content.metadata().unwrap_or(&nothing), context.names);
    let id = id.map_err(|flaw| flaw.located(document))?;
    let object = convert(content, context, &id).map_err(|flaw| flaw.located(document))?;
    Ok((id, object))
}

/// The name of an object, checked. Services and namespaces are DNS labels, all else DNS names.
fn name(kind: Kind, metadata: &Metadata, names: &mut Interner) -> Result<ObjectId, Flaw> {
    let name = metadata.name.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Flaw::new("metadata.name", "a name is required"))?;
    let path = || "metadata.name".to_owned();
    let is_label = matches!(kind, Kind::Service | Kind::Namespace);
    if is_label { check::label(name, path) } else { check::subdomain(name, path) }?;
    if matches!(kind, Kind::Node | Kind::Namespace) {
        return Ok(ObjectId { kind, namespace: names.share(""), name: names.share(name) });
    }
    let namespace = metadata.namespace.as_deref().filter(|name| !name.is_empty()).unwrap_or("default");
    check::label(namespace, || "metadata.namespace".to_owned())?;
    // A Service's name is that of its slices' label and of its Endpoints too; other names stand alone.
    let shared = matches!(kind, Kind::Service | Kind::Endpoints);
    let name = if shared { names.share(name) } else { name.into() };
    Ok(ObjectId { kind, namespace: names.share(namespace), name })
}

/// Whose document it is, if a broken document still says so.
fn identity(kind: Kind, document: &Document<'_>, context: &mut Context<'_>) -> Option<ObjectId> {
    let metadata = read::identity(document).metadata?;
    name(kind, &metadata, context.names).ok()
}

/// A node's name as others mention it.
fn node_name(name: Option<&str>, names: &mut Interner, path: impl Fn() -> String) -> Result<Option<Arc<str>>, Flaw> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    check::subdomain(name, path)?;
    Ok(Some(names.share(name)))
}

fn hostname(name: Option<&str>, path: impl Fn() -> String) -> Result<Option<Box<str>>, Flaw> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    check::label(name, path)?;
    Ok(Some(name.into()))
}

macro_rules! described {
    ($($document:ident => $kind:ident),*) => {$(
        impl Described for read::schema::$document {
            const KIND: Kind = Kind::$kind;

            fn metadata(&self) -> Option<&Metadata> {
                self.metadata.as_ref()
            }
        }
    )*};
}

described!(
    ServiceDocument => Service, SliceDocument => EndpointSlice, EndpointsDocument => Endpoints, PodDocument => Pod,
    NodeDocument => Node, NamespaceDocument => Namespace
);
