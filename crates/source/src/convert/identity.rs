//! Names: of the object itself, and of others that it refers to.

use std::sync::Arc;

use super::check;
use super::context::Flaw;
use crate::intern::Interner;
use crate::object::{Kind, ObjectId};
use crate::spec::{Metadata, ObjectReference};

/// Services and Namespaces have DNS labels for names, all else DNS subdomains.
pub(crate) fn identify(kind: Kind, metadata: &Metadata, names: &mut Interner) -> Result<ObjectId, Flaw> {
    let path = || "metadata.name".to_owned();
    let name = match (&*metadata.name, kind) {
        ("", _) => return Err(Flaw::new(path(), "a name is required")),
        (name, Kind::Service | Kind::Namespace) => check::label(name, path)?,
        (name, _) => check::subdomain(name, path)?,
    };
    // The name of a Service recurs in its slices' labels and its Endpoints; other names are unique.
    let is_shared = matches!(kind, Kind::Service | Kind::Endpoints | Kind::Node | Kind::Namespace);
    let name = if is_shared { names.share(name) } else { name.into() };
    Ok(ObjectId { kind, namespace: namespace(kind, metadata, names)?, name })
}

fn namespace(kind: Kind, metadata: &Metadata, names: &mut Interner) -> Result<Arc<str>, Flaw> {
    let namespace = match (&*metadata.namespace, kind) {
        (_, Kind::Node | Kind::Namespace) => return Ok(names.share("")),
        ("", _) => "default",
        (namespace, _) => namespace,
    };
    check::label(namespace, || "metadata.namespace".to_owned())?;
    Ok(names.share(namespace))
}

/// The name of a node that another object refers to.
pub(super) fn node_name(name: &str, names: &mut Interner, path: impl Fn() -> String) -> Result<Option<Arc<str>>, Flaw> {
    if name.is_empty() {
        return Ok(None);
    }
    check::subdomain(name, path)?;
    Ok(Some(names.share(name)))
}

/// The Pod behind an endpoint, in the namespace of the endpoint's own object. An API server accepts any text here; one that
/// is no name of a Pod is ignored, and costs no endpoint.
pub(super) fn pod_name(target: Option<&ObjectReference>, namespace: &str) -> Option<Box<str>> {
    let target = target.filter(|target| target.kind == "Pod" && ["", namespace].contains(&&*target.namespace))?;
    check::subdomain(&target.name, String::new).ok().map(Into::into)
}

pub(super) fn hostname(name: &str, path: impl Fn() -> String) -> Result<Option<Box<str>>, Flaw> {
    if name.is_empty() {
        return Ok(None);
    }
    check::label(name, path)?;
    Ok(Some(name.into()))
}

/// The zone of a node, from its label.
pub(super) fn zone(metadata: &Metadata, names: &mut Interner) -> Result<Option<Arc<str>>, Flaw> {
    let Some(zone) = metadata.label("topology.kubernetes.io/zone").filter(|zone| !zone.is_empty()) else {
        return Ok(None);
    };
    check::label_value(zone, || "metadata.labels".to_owned())?;
    Ok(Some(names.share(zone)))
}
