//! Weights of endpoints, from annotations: of a slice or a Pod for its endpoints, of a Service for places.

use std::sync::Arc;

use portolan_model::{PlaceWeights, Weight};

use super::check;
use super::context::{Context, Flaw};
use crate::spec::Metadata;

const WEIGHT: &str = "portolan.dev/weight";
const NODE_WEIGHTS: &str = "portolan.dev/node-weights";
const ZONE_WEIGHTS: &str = "portolan.dev/zone-weights";

/// Of an EndpointSlice or a Pod.
pub(super) fn weight(metadata: &Metadata, context: &mut Context<'_>) -> Weight {
    let Some(text) = metadata.annotation(WEIGHT) else { return Weight::default() };
    context.or_omit(parse(text, WEIGHT)).unwrap_or_default()
}

/// Of a Service: `node-a=300,node-b=100`.
pub(super) fn of_places(metadata: &Metadata, context: &mut Context<'_>) -> Option<Box<PlaceWeights>> {
    let nodes = places(metadata, NODE_WEIGHTS, context).unwrap_or_default();
    let zones = places(metadata, ZONE_WEIGHTS, context).unwrap_or_default();
    let is_empty = nodes.is_empty() && zones.is_empty();
    (!is_empty).then(|| Box::new(PlaceWeights { nodes, zones }))
}

type Places = Box<[(Arc<str>, Weight)]>;

fn places(metadata: &Metadata, annotation: &str, context: &mut Context<'_>) -> Option<Places> {
    let text = metadata.annotation(annotation)?;
    let parsed: Result<Places, Flaw> = text.split(',').map(|pair| place(pair, annotation, context)).collect();
    context.or_omit(parsed)
}

fn place(pair: &str, annotation: &str, context: &mut Context<'_>) -> Result<(Arc<str>, Weight), Flaw> {
    let malformed = || flaw(annotation, format!("{pair:?} is not a name and a weight, as in node-a=300"));
    let (name, weight) = pair.split_once('=').ok_or_else(malformed)?;
    let path = || path(annotation);
    let name = check::subdomain(name.trim(), path).or_else(|_| check::label_value(name.trim(), path))?;
    Ok((context.names.share(name), parse(weight, annotation)?))
}

fn parse(text: &str, annotation: &str) -> Result<Weight, Flaw> {
    let weight = text.trim().parse().ok().and_then(Weight::new);
    weight.ok_or_else(|| flaw(annotation, format!("{text:?} is not a weight (0 to {})", Weight::MOST)))
}

fn path(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

fn flaw(annotation: &str, reason: String) -> Flaw {
    Flaw::new(path(annotation), reason)
}
