//! Which session affinity entries of the kernel are still valid.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use portolan_model::{Family, Protocol};

use crate::claims::Claim;
use crate::plan::Plan;
use crate::service::{Endpoint, FrontendAddress, ServicePlan};
use crate::verdict::Origin;

/// An affinity entry of the kernel: this client connected to this destination and was assigned this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientChoice {
    pub client: IpAddr,
    pub destination: IpAddr,
    pub port: u16,
    pub protocol: Protocol,
    pub endpoint: SocketAddr,
}

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

    /// An entry is valid while its Service has affinity and its endpoint accepts new connections from this client.
    /// Which endpoints those are depends on the traffic policies, hence on the origin of the client.
    pub fn keeps_client(&self, choice: &ClientChoice) -> bool {
        let Some(claim) = self.holder(choice.destination, choice.port, choice.protocol) else { return false };
        let Some(service) = self.services.get(&claim.holder) else { return false };
        let frontend = service.frontends.iter().find(|frontend| frontend.address == claim.address);
        let Some(frontend) = frontend.filter(|_| service.affinity_seconds.is_some()) else { return false };
        self.node.possible_origins(choice.client).iter().all(|origin| {
            let endpoints = service.reached_by(frontend.routes.from(*origin));
            endpoints.iter().any(|endpoint| endpoint.socket() == choice.endpoint)
        })
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

/// Whether a change can leave an invalid affinity entry in the kernel: the affinity itself, a frontend, or an
/// endpoint behind it was removed, even for one origin only. Enabling affinity counts too: the kernel identifies
/// sticky node ports by number alone, and may have learned from flows to other addresses with that port.
pub fn invalidates_affinity(old: Option<&ServicePlan>, new: Option<&ServicePlan>) -> bool {
    let is_sticky = |port: &&ServicePlan| port.affinity_seconds.is_some();
    let (old, new) = match (old.filter(is_sticky), new.filter(is_sticky)) {
        (None, None) => return false,
        (Some(old), Some(new)) => (old, new),
        _ => return true,
    };
    old.frontends.iter().any(|before| {
        let after = new.frontends.iter().find(|after| after.address == before.address);
        after.is_none_or(|after| {
            let reached = |origin: &Origin| {
                let (before, after) = (before.routes.from(*origin), after.routes.from(*origin));
                (old.reached_by(before), new.reached_by(after))
            };
            Origin::ALL.iter().map(reached).any(|(before, after)| loses_endpoint(before, after))
        })
    })
}

fn loses_endpoint(before: &[Endpoint], after: &[Endpoint]) -> bool {
    let kept: HashSet<SocketAddr> = after.iter().map(Endpoint::socket).collect();
    before.iter().any(|endpoint| !kept.contains(&endpoint.socket()))
}
