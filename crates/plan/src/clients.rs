//! Which Service a client reaches, and whether its session affinity is still valid.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use portolan_model::{Family, Protocol};

use crate::claims::Claim;
use crate::endpoint::Endpoint;
use crate::plan::Plan;
use crate::service::{FrontendAddress, ServicePlan};
use crate::verdict::Pool;

impl Plan {
    /// The claim that serves a destination: a frontend address, or else a node port of this node.
    pub fn holder(&self, destination: IpAddr, port: u16, protocol: Protocol) -> Option<Claim> {
        let family = Family::of(destination);
        let node_port = || {
            let serves = self.node.serves_node_ports(family, destination);
            serves.then(|| self.claims.holder(family, FrontendAddress::NodePort(port), protocol)).flatten()
        };
        self.claims.holder(family, FrontendAddress::Vip(destination, port), protocol).or_else(node_port)
    }
}

/// Whether a change can leave session affinity to an endpoint that is gone: both plans have affinity, and a pool has lost
/// an endpoint.
pub fn invalidates_affinity(old: &ServicePlan, new: &ServicePlan) -> bool {
    let is_sticky = |port: &ServicePlan| port.affinity_seconds.is_some();
    let loses = |pool| loses_endpoint(old.pool(pool), new.pool(pool));
    is_sticky(old) && is_sticky(new) && [Pool::Cluster, Pool::Local].into_iter().any(loses)
}

fn loses_endpoint(before: &[Endpoint], after: &[Endpoint]) -> bool {
    let kept: HashSet<SocketAddr> = after.iter().map(Endpoint::socket).collect();
    before.iter().any(|endpoint| !kept.contains(&endpoint.socket()))
}
