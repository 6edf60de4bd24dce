//! What HNS holds, as it was read and as calls have changed it since.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use portolan_hns::{Endpoint, Guid, LoadBalancer};
use portolan_model::Family;

use super::documents;
use super::network::Place;
use super::objects::{Balancer, Front, Role, Source, Stray, Target};

#[derive(Default)]
pub(super) struct Held {
    endpoints: BTreeMap<Guid, HeldEndpoint>,
    by_address: BTreeMap<IpAddr, Vec<Guid>>,
    pub(super) balancers: BTreeMap<Front, LoadBalancer>,
    /// Load balancers of proxies for front ends that have one already.
    pub(super) surplus: Vec<Stray>,
    /// Load balancers that no proxy can have made.
    foreign: Vec<Guid>,
}

pub(super) struct HeldEndpoint {
    pub(super) id: Guid,
    pub(super) addresses: Vec<IpAddr>,
    name: String,
    pub(super) is_remote: bool,
    /// What a proxy has it for; `None` if another program has made it.
    pub(super) role: Option<Role>,
}

impl Held {
    pub(super) fn new(
        endpoints: Vec<Endpoint>,
        balancers: Vec<LoadBalancer>,
        place: &Place,
        source_vip: Option<IpAddr>,
    ) -> Self {
        let mut held = Self::default();
        held.set_endpoints(&endpoints, place, source_vip);
        for balancer in balancers {
            let Some(id) = balancer.id else { continue };
            let Some(front) = documents::front(&balancer) else {
                held.foreign.push(id);
                continue;
            };
            match held.balancers.contains_key(&front) {
                true => held.surplus.push(Stray { family: front.family, is_balancer: true, id }),
                false => _ = held.balancers.insert(front, balancer),
            }
        }
        held
    }

    pub(super) fn set_endpoints(&mut self, endpoints: &[Endpoint], place: &Place, source_vip: Option<IpAddr>) {
        self.endpoints.clear();
        self.by_address.clear();
        endpoints.iter().for_each(|it| self.add_endpoint(it, place, source_vip));
    }

    /// Everything that a listing of identities has.
    pub(super) fn identities(&self) -> BTreeSet<Guid> {
        let balancers = self.balancers.values().filter_map(|it| it.id);
        let others = self.surplus.iter().map(|stray| stray.id).chain(self.foreign.iter().copied());
        self.endpoints.keys().copied().chain(balancers).chain(others).collect()
    }

    pub(super) fn add_endpoint(&mut self, endpoint: &Endpoint, place: &Place, source_vip: Option<IpAddr>) {
        let Some(id) = endpoint.id else { return };
        let addresses: Vec<IpAddr> =
            endpoint.ip_configurations.iter().filter_map(|it| it.ip_address.parse().ok()).collect();
        let role = addresses.first().and_then(|address| documents::role(endpoint, *address, place, source_vip));
        addresses.iter().for_each(|address| self.by_address.entry(*address).or_default().push(id));
        let (name, is_remote) = (endpoint.name.clone(), endpoint.is_remote());
        self.endpoints.insert(id, HeldEndpoint { id, addresses, name, is_remote, role });
    }

    pub(super) fn remove_endpoint(&mut self, id: Guid) {
        let Some(endpoint) = self.endpoints.remove(&id) else { return };
        for address in endpoint.addresses {
            let ids = self.by_address.entry(address).or_default();
            ids.retain(|it| *it != id);
            if ids.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    pub(super) fn endpoints(&self) -> impl Iterator<Item = &HeldEndpoint> {
        self.endpoints.values()
    }

    fn at(&self, address: IpAddr) -> impl Iterator<Item = &HeldEndpoint> {
        self.by_address.get(&address).into_iter().flatten().filter_map(|id| self.endpoints.get(id))
    }

    /// The endpoint that has the address: one of this node, if there is any.
    pub(super) fn preferred(&self, address: IpAddr) -> Option<&HeldEndpoint> {
        self.at(address).min_by_key(|endpoint| (endpoint.is_remote, endpoint.id))
    }

    /// Whether an endpoint of this node has the address, other than one of ours.
    pub(super) fn is_local(&self, address: IpAddr) -> bool {
        self.at(address).any(|endpoint| !endpoint.is_remote && endpoint.role.is_none())
    }

    /// The endpoint of ours with the address.
    pub(super) fn own(&self, address: IpAddr) -> Option<Guid> {
        let own = self.at(address).filter(|endpoint| endpoint.role.is_some());
        own.map(|endpoint| endpoint.id).min()
    }

    pub(super) fn id_of(&self, target: &Target) -> Option<Guid> {
        match target {
            Target::Address(address) => self.preferred(*address).map(|it| it.id),
            Target::Named(name) => self.endpoints().find(|it| it.name.eq_ignore_ascii_case(name)).map(|it| it.id),
            Target::Unknown(_) => None,
        }
    }

    /// The remote addresses among these targets.
    pub(super) fn remote(&self, targets: &[Target]) -> Vec<IpAddr> {
        let address = |target: &Target| match target {
            Target::Address(address) => Some(*address),
            Target::Named(_) | Target::Unknown(_) => None,
        };
        let is_remote = |address: &IpAddr| self.preferred(*address).is_some_and(|it| it.is_remote);
        targets.iter().filter_map(address).filter(is_remote).collect()
    }

    /// A load balancer as an object. `root` is the endpoint that is known by its name.
    pub(super) fn object(&self, front: &Front, held: &LoadBalancer, place: &Place, root: &str) -> Option<Balancer> {
        let mapping = held.port_mappings.first()?;
        let target = |id: &Guid| self.target(*id, front.family, root);
        let mut targets: Vec<Target> = held.host_compute_endpoints.iter().map(target).collect();
        targets.sort_unstable();
        targets.dedup();
        let expected = place.source(front.family, self.remote(&targets).into_iter());
        let is_standard = held.source_vip.parse().ok() == expected;
        Some(Balancer {
            targets: targets.into(),
            target_port: mapping.internal_port,
            distribution: documents::distribution(mapping),
            flags: held.flags,
            mapping_flags: mapping.flags,
            source: if is_standard { Source::Standard } else { Source::Other(documents::text(&held.source_vip)) },
        })
    }

    fn target(&self, id: Guid, family: Family, root: &str) -> Target {
        let Some(endpoint) = self.endpoints.get(&id) else { return Target::Unknown(id) };
        if endpoint.name.eq_ignore_ascii_case(root) {
            return Target::Named(documents::text(root));
        }
        let address = endpoint.addresses.iter().copied().find(|address| Family::of(*address) == family);
        let is_preferred = |address: &IpAddr| self.preferred(*address).is_some_and(|it| it.id == id);
        address.filter(is_preferred).map_or(Target::Unknown(id), Target::Address)
    }
}
