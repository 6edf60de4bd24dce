//! Which state of clients in the kernel, session affinity and UDP flows, is no longer valid.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use portolan_model::{Family, Protocol};

use crate::claims::Claim;
use crate::plan::Plan;
use crate::service::{Endpoint, FrontendAddress, ServicePlan};
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

    /// A tracked UDP flow is stale when its frontend is ours and its endpoint no longer serves. A node port without
    /// endpoints is left alone: a foreign process may use the same port number on another address. Flows to the relay
    /// are left alone too, because it selects an endpoint for each datagram.
    pub fn is_stale_flow(&self, destination: SocketAddr, protocol: Protocol, leads_to: SocketAddr) -> bool {
        if self.node.limits.relayed && leads_to != destination && self.node.owns(leads_to.ip()) {
            return false;
        }
        let Some(claim) = self.holder(destination.ip(), destination.port(), protocol) else { return false };
        let Some(service) = self.services.get(&claim.holder) else { return false };
        let mut serving = service.serving().peekable();
        let is_idle_node_port = matches!(claim.address, FrontendAddress::NodePort(_)) && serving.peek().is_none();
        !is_idle_node_port && serving.all(|endpoint| endpoint.socket() != leads_to)
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
