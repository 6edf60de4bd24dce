//! Decides which Service gets an address and port that several Services claim.
//!
//! The API server allocates ClusterIPs and node ports uniquely, but two Services may name the same external IP. The
//! winner must not depend on the order of events: it is chosen by kind of frontend, then by name.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Family, OrdSet, Protocol, ServiceName};

use crate::node::NodePlan;
use crate::service::{Conflict, Frontend, FrontendAddress, FrontendKind, PortKey, ServicePlan};

/// Ordered so that all claims to one address and port are adjacent, the winner first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    pub family: Family,
    pub address: FrontendAddress,
    pub protocol: Protocol,
    pub kind: FrontendKind,
    pub holder: PortKey,
}

impl Claim {
    pub(crate) fn new(address: FrontendAddress, kind: FrontendKind, holder: PortKey) -> Self {
        Self { family: holder.family, address, protocol: holder.name.protocol, kind, holder }
    }

    fn is_for(&self, family: Family, address: FrontendAddress, protocol: Protocol) -> bool {
        (self.family, self.address, self.protocol) == (family, address, protocol)
    }

    /// The least claim to an address and port, to start a range from.
    fn least(family: Family, address: FrontendAddress, protocol: Protocol) -> Self {
        let holder = PortKey::first_of(&ServiceName { namespace: Arc::default(), name: Arc::default() });
        Self { family, address, protocol, kind: FrontendKind::ClusterIp, holder }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(OrdSet<Claim>);

impl Claims {
    pub(crate) fn insert(&mut self, claim: Claim) {
        self.0.insert(claim);
    }

    pub(crate) fn remove(&mut self, claim: &Claim) {
        self.0.remove(claim);
    }

    /// The claim that holds this address and port, if any.
    pub fn holder(&self, family: Family, address: FrontendAddress, protocol: Protocol) -> Option<Claim> {
        let first = self.0.range(Claim::least(family, address, protocol)..).next()?;
        first.is_for(family, address, protocol).then(|| first.clone())
    }

    /// The other Services that claim the same address and port, and those whose node port the claim overrides.
    pub(crate) fn rivals(&self, claim: &Claim, node: &NodePlan) -> Vec<ServiceName> {
        let mut rivals = self.others(claim, claim.address);
        if let FrontendAddress::Vip(address, port) = claim.address
            && node.limits.virtual_servers
            && node.owns(address)
        {
            rivals.extend(self.others(claim, FrontendAddress::NodePort(port)));
        }
        rivals
    }

    fn others(&self, claim: &Claim, address: FrontendAddress) -> Vec<ServiceName> {
        self.0
            .range(Claim::least(claim.family, address, claim.protocol)..)
            .take_while(|other| other.is_for(claim.family, address, claim.protocol))
            .map(|other| &other.holder.name.service)
            .filter(|service| **service != claim.holder.name.service)
            .cloned()
            .collect()
    }

    /// Whether a frontend of a matching kind claims the address, at any port.
    pub fn any_at(&self, address: IpAddr, is_meant: impl Fn(FrontendKind) -> bool) -> bool {
        self.at(address).any(|claim| is_meant(claim.kind))
    }

    /// All claims to ports of an address, by port; of several claims to the same one, the first holds it. Node ports are
    /// not among them.
    pub fn at(&self, address: IpAddr) -> impl Iterator<Item = &Claim> {
        let first = Claim::least(Family::of(address), FrontendAddress::Vip(address, 0), Protocol::Tcp);
        let is_here = move |claim: &&Claim| matches!(claim.address, FrontendAddress::Vip(other, _) if other == address);
        self.0.range(first..).take_while(is_here)
    }
}

impl ServicePlan {
    pub(crate) fn claims(&self) -> impl Iterator<Item = Claim> {
        let held = self.frontends.iter().map(|frontend| (frontend.address, frontend.kind));
        let lost = self.conflicts.iter().map(|conflict| (conflict.address, conflict.kind));
        held.chain(lost).map(|(address, kind)| Claim::new(address, kind, self.key.clone()))
    }

    pub(crate) fn drop_lost_frontends(&mut self, claims: &Claims, node: &NodePlan) {
        let (held, lost): (Vec<_>, Vec<_>) = std::mem::take(&mut self.frontends)
            .into_iter()
            .map(|frontend| (claims.holder(self.key.family, frontend.address, self.protocol()), frontend))
            .partition(|(holder, _)| holder.as_ref().is_none_or(|claim| claim.holder == self.key));
        self.frontends = held.into_iter().map(|(_, frontend)| frontend).collect();
        self.conflicts = lost.into_iter().filter_map(|(holder, frontend)| conflict(holder?, &frontend)).collect();
        self.taken_addresses = if node.limits.virtual_servers { self.taken_addresses(claims, node) } else { [].into() };
    }

    fn taken_addresses(&self, claims: &Claims, node: &NodePlan) -> Box<[IpAddr]> {
        let node_port = self.frontends.iter().find_map(|frontend| match frontend.address {
            FrontendAddress::NodePort(port) => Some(port),
            FrontendAddress::Vip(..) => None,
        });
        let Some(port) = node_port else { return [].into() };
        let is_taken = |address: &IpAddr| {
            claims.holder(self.key.family, FrontendAddress::Vip(*address, port), self.protocol()).is_some()
        };
        node.node_port_addresses(self.key.family).filter(is_taken).collect()
    }
}

fn conflict(holder: Claim, frontend: &Frontend) -> Option<Conflict> {
    Some(Conflict { address: frontend.address, kind: frontend.kind, holder: holder.holder })
}
