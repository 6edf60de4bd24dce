//! Which remembered choices of clients still hold (session affinity).

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use portolan_model::{Family, Protocol};

use crate::claims::Claim;
use crate::service::{Endpoint, FrontendAddress, ServicePlan};
use crate::{Origin, Plan};

/// What the kernel remembers: this client asked for this destination and was given this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientChoice {
    pub client: IpAddr,
    pub destination: IpAddr,
    pub port: u16,
    pub protocol: Protocol,
    pub endpoint: SocketAddr,
}

impl Plan {
    /// Who serves what a packet asks for: a frontend address, or else a node port of this node.
    pub fn holder(&self, destination: IpAddr, port: u16, protocol: Protocol) -> Option<Claim> {
        let family = Family::of(destination);
        let node_port = || {
            let serves = self.node.serves_node_ports(family, destination);
            serves.then(|| self.claims.holder(family, FrontendAddress::NodePort(port), protocol)).flatten()
        };
        self.claims.holder(family, FrontendAddress::Vip(destination, port), protocol).or_else(node_port)
    }

    /// A choice holds while its Service has affinity and its endpoint gets new connections from such a client. Which
    /// endpoints those are depends on the traffic policies, hence on who the client is.
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

    /// A remembered UDP flow is stale when its frontend is ours and what it leads to no longer serves. A node port
    /// without endpoints is left alone: the same port number may be somebody else's on another address. So is what leads
    /// to the relay, which finds an endpoint for each datagram.
    pub fn is_stale_flow(&self, destination: SocketAddr, protocol: Protocol, leads_to: SocketAddr) -> bool {
        if self.node.relayed && leads_to != destination && self.node.owns(leads_to.ip()) {
            return false;
        }
        let Some(claim) = self.holder(destination.ip(), destination.port(), protocol) else { return false };
        let Some(service) = self.services.get(&claim.holder) else { return false };
        let mut serving = service.serving().peekable();
        let is_idle_node_port = matches!(claim.address, FrontendAddress::NodePort(_)) && serving.peek().is_none();
        !is_idle_node_port && serving.all(|endpoint| endpoint.socket() != leads_to)
    }
}

/// Whether a change can leave a remembered choice that is wrong: the affinity itself, some frontend, or some endpoint
/// behind it is gone, be it only for one kind of client. Where affinity begins, something may be remembered already: the
/// kernel knows sticky node ports by their number alone, and so learns from flows to other addresses with that port.
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
