//! Which endpoints the topology hints allow on this node.

use portolan_model::{Hints, SliceEndpoint};

use crate::node::NodePlan;

/// How far hints narrow the choice. Hints count only if every ready endpoint has them and at least one endpoint is
/// meant for this node; otherwise following them could leave some clients without endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    SameNode,
    SameZone,
    Anywhere,
}

impl Topology {
    pub(crate) fn choose<'a>(ready: impl Iterator<Item = &'a SliceEndpoint> + Clone, node: &NodePlan) -> Self {
        [Self::SameNode, Self::SameZone]
            .into_iter()
            .find(|topology| topology.is_usable(ready.clone(), node))
            .unwrap_or(Self::Anywhere)
    }

    fn is_usable<'a>(self, mut ready: impl Iterator<Item = &'a SliceEndpoint> + Clone, node: &NodePlan) -> bool {
        ready.clone().any(|endpoint| self.allows(endpoint, node)) && ready.all(|endpoint| self.is_hinted(endpoint))
    }

    fn is_hinted(self, endpoint: &SliceEndpoint) -> bool {
        let hinted = |hints: &Hints| match self {
            Self::SameNode => !hints.nodes.is_empty(),
            Self::SameZone => !hints.zones.is_empty(),
            Self::Anywhere => true,
        };
        endpoint.hints().is_some_and(hinted)
    }

    pub(crate) fn allows(self, endpoint: &SliceEndpoint, node: &NodePlan) -> bool {
        let names_us = |hints: &Hints| match self {
            Self::SameNode => hints.nodes.contains(&node.name),
            Self::SameZone => node.zone.as_ref().is_some_and(|zone| !zone.is_empty() && hints.zones.contains(zone)),
            Self::Anywhere => true,
        };
        self == Self::Anywhere || endpoint.hints().is_some_and(names_us)
    }
}
