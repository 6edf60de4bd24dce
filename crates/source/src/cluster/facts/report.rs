//! Log messages about malformed objects.

use crate::cluster::resource::Malformed;
use crate::convert::context::{Context, Flaw};
use crate::spec::Metadata;

pub(super) fn report(kind: &str, metadata: &Metadata, flaw: &Flaw) {
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    tracing::error!("{kind} {namespace:?}/{name:?}: {flaw}; the last good version, if any, stays in force");
}

/// The object is used without these parts.
pub(super) fn report_omitted(kind: &str, metadata: &Metadata, context: &Context<'_>) {
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    for flaw in &context.omitted {
        tracing::warn!("{kind} {namespace:?}/{name:?}: {flaw}; the field is ignored");
    }
}

pub(in crate::cluster) fn report_malformed(kind: &str, malformed: &Malformed) {
    match &malformed.metadata {
        Some(metadata) => report(kind, metadata, &Flaw::new("cannot decode the object", malformed.reason.as_str())),
        None => tracing::error!("cannot decode a {kind}, not even its name: {}", malformed.reason),
    }
}
