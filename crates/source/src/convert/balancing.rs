//! How connections are balanced, from annotations: weights of a slice or a Pod for its endpoints, everything else of a Service.

use std::sync::Arc;

use portolan_model::{Balancing, Malformed, PlaceWeights, Weight, duration, switch};

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

/// Of a Service. `None` if it has no annotation about it.
pub(super) fn balancing(metadata: &Metadata, context: &mut Context<'_>) -> Option<Arc<Balancing>> {
    let places = places(metadata, context);
    let mut setting = Setting { metadata, context };
    let balancing = Balancing {
        algorithm: setting.read("portolan.dev/algorithm", str::parse),
        hash: setting.read("portolan.dev/hash", str::parse),
        table_size: setting.read("portolan.dev/maglev-table-size", str::parse),
        places,
        slow_start: setting.read("portolan.dev/slow-start", duration),
        quarantine: setting.read("portolan.dev/quarantine", switch),
        removed_connections: setting.read("portolan.dev/connections-of-removed-endpoints", str::parse),
        rebalance: setting.read("portolan.dev/rebalance", str::parse),
    };
    (balancing != Balancing::default()).then(|| Arc::new(balancing))
}

struct Setting<'a, 'b> {
    metadata: &'a Metadata,
    context: &'a mut Context<'b>,
}

impl Setting<'_, '_> {
    /// A malformed value is reported, and the default counts.
    fn read<T>(&mut self, annotation: &str, parse: impl Fn(&str) -> Result<T, Malformed>) -> Option<T> {
        let text = self.metadata.annotation(annotation)?;
        self.context.or_omit(parse(text).map_err(|Malformed(reason)| flaw(annotation, reason)))
    }
}

fn places(metadata: &Metadata, context: &mut Context<'_>) -> PlaceWeights {
    let nodes = weights(metadata, NODE_WEIGHTS, context).unwrap_or_default();
    let zones = weights(metadata, ZONE_WEIGHTS, context).unwrap_or_default();
    PlaceWeights { nodes, zones }
}

type Places = Box<[(Arc<str>, Weight)]>;

/// `node-a=300,node-b=100`
fn weights(metadata: &Metadata, annotation: &str, context: &mut Context<'_>) -> Option<Places> {
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
