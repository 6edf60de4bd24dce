//! What hooks decide when a socket connects, in a mode that has them.
//!
//! A hook knows whether the socket belongs to a pod or to the node, and that is all: the source address is not selected yet,
//! and nothing can be dropped. It leaves everything else to the rules, which serve every Service completely.

use crate::node::NodePlan;
use crate::verdict::{Refusal, Route, Verdict};

/// The decision by the owner of the socket. `None` leaves it to the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtConnect {
    pub pod: Option<Verdict>,
    pub node: Option<Verdict>,
}

/// Whether a hook can decide as this route does. The endpoint sees the client's own address, so that a masquerade which is not
/// only for the sake of replies is left to the rules.
pub(crate) fn verdict(route: Route, node: &NodePlan) -> Option<Verdict> {
    match route.verdict {
        Verdict::Forward(_) if node.masquerade_all => None,
        Verdict::Refuse(Refusal::Drop(_)) => None,
        decided => Some(decided),
    }
}
