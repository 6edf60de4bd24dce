//! HNS, read and written.
//!
//! HNS has no transactions. Endpoints are created before the load balancers that name them, and deleted after; an error ends
//! nothing but what depends on it, and the next sync starts from what HNS really holds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use portolan_hns::{Error as HnsError, ErrorKind, Hns, LoadBalancer, Version};
use portolan_model::Family;
use portolan_plan::NodePlan;

use super::Kernelspace;
use super::abilities::Abilities;
use super::documents;
use super::failures::Refused;
use super::held::Held;
use super::network::{NodeAddresses, Place};
use super::objects::{Balancer, Front, Key, Role, Stray, Value};
use super::settings::Settings;
use super::watch::Known;
use crate::{Change, Error, Objects, Observe, Program};

pub(super) struct HnsKernel {
    pub(super) hns: Box<dyn Hns>,
    pub(super) settings: Settings,
    pub(super) node: NodeAddresses,
    pub(super) place: Option<Place>,
    pub(super) held: Held,
    pub(super) version: Option<Version>,
    /// Modification of load balancers is promised by the version, and not there.
    pub(super) lacks_modification: bool,
    /// Whether new endpoints get the identity that is chosen for them, once it is known.
    pub(super) honours_identities: Option<bool>,
    /// Load balancers of which HNS has a part, because endpoints of this node do not exist (yet).
    pub(super) partial: BTreeMap<Front, Balancer>,
    /// Remote addresses that an endpoint of this node has.
    pub(super) local_instead: BTreeSet<IpAddr>,
    pub(super) known: Arc<Known>,
    /// Calls for load balancers that HNS refused in the current sync.
    pub(super) refused: Vec<Refused>,
}

impl HnsKernel {
    pub(super) fn new(hns: Box<dyn Hns>, settings: Settings) -> Self {
        Self {
            hns,
            settings,
            node: NodeAddresses::default(),
            place: None,
            held: Held::default(),
            version: None,
            lacks_modification: false,
            honours_identities: None,
            partial: BTreeMap::new(),
            local_instead: BTreeSet::new(),
            known: Arc::default(),
            refused: Vec::new(),
        }
    }

    /// What follows from the node's own addresses changes with them.
    pub(super) fn note_node(&mut self, node: &NodePlan) {
        self.node = NodeAddresses::of(node);
        if let Some(place) = &mut self.place {
            place.node = self.node;
        }
    }

    pub(super) fn modifies(&self) -> bool {
        self.version >= Some(Version::MODIFIES) && !self.lacks_modification
    }

    pub(super) fn place(&self) -> Result<Place, HnsError> {
        let unread = || HnsError::of(ErrorKind::NetworkNotFound, "writing before the network is read");
        self.place.clone().ok_or_else(unread)
    }

    fn refresh(&mut self) -> Result<(), HnsError> {
        let version = match self.version {
            Some(version) => version,
            None => *self.version.insert(self.hns.version()?),
        };
        let mut place = Place::read(&mut *self.hns, &self.settings, self.node)?;
        (self.settings.is_overlay, self.settings.abilities) = (place.is_overlay, Abilities::of(version));
        let endpoints = self.hns.endpoints(place.network)?;
        let source = |it: &&portolan_hns::Endpoint| {
            let is_source = |text: &str| text.parse().ok() == self.settings.source_vip && !text.is_empty();
            it.ip_configurations.iter().any(|ip| is_source(&ip.ip_address))
        };
        // A command that only reads knows the node's address from the endpoint that the daemon has made with it.
        let noted = endpoints.iter().find(source).and_then(|it| it.provider_address()?.parse().ok());
        if let Some(address) = noted.filter(|_| self.node == NodeAddresses::default()) {
            place.node.set(address);
            place.host_mac = if place.is_overlay { self.hns.host_mac(address)? } else { String::new() };
        }
        self.held = Held::new(endpoints, self.hns.load_balancers()?, &place, self.settings.source_vip);
        self.known.set(self.held.identities(), place.network);
        self.place = Some(place);
        Ok(())
    }

    /// Lists the endpoints again, for those that have been created since.
    pub(super) fn refresh_endpoints(&mut self) -> Result<(), HnsError> {
        let place = self.place()?;
        let endpoints = self.hns.endpoints(place.network)?;
        self.held.set_endpoints(&endpoints, &place, self.settings.source_vip);
        Ok(())
    }

    fn objects(&self, place: &Place) -> Objects<Kernelspace> {
        let endpoints = self.endpoint_objects();
        let strays = self.held.surplus.iter().map(|stray| (Key::Stray(*stray), Value::Stray));
        let local = self.local_instead.iter().filter(|address| self.held.is_local(**address));
        let local = local.map(|address| (Key::Endpoint(*address), Value::Endpoint(Role::Remote)));
        Objects(endpoints.into_iter().chain(local).chain(strays).chain(self.balancer_objects(place)).collect())
    }

    /// Of several endpoints with one address, that of this node counts, and then the first.
    fn endpoint_objects(&self) -> Vec<(Key, Value)> {
        let object = |endpoint: &super::held::HeldEndpoint| {
            let (role, address) = (endpoint.role.clone()?, *endpoint.addresses.first()?);
            let is_used = self.held.own(address) == Some(endpoint.id) && !self.held.is_local(address);
            let stray = Stray { family: Family::of(address), is_balancer: false, id: endpoint.id };
            match is_used {
                true => Some((Key::Endpoint(address), Value::Endpoint(role))),
                false => Some((Key::Stray(stray), Value::Stray)),
            }
        };
        self.held.endpoints().filter_map(object).collect()
    }

    fn balancer_objects(&self, place: &Place) -> BTreeMap<Key, Value> {
        let mut objects = BTreeMap::new();
        for (front, held) in &self.held.balancers {
            if let Some(balancer) = self.held.object(front, held, place, &self.settings.root_endpoint) {
                objects.insert(balancer.key(*front), Value::Balancer(balancer));
            }
        }
        let complete = self.partial.iter().filter(|(front, balancer)| self.is_held_as_possible(front, balancer, place));
        for (front, balancer) in complete {
            objects.remove(&Key::Balancer(*front));
            objects.remove(&Key::HealthCheck(*front));
            objects.insert(balancer.key(*front), Value::Balancer(balancer.clone()));
        }
        objects
    }

    /// Whether HNS holds as much of a load balancer as its endpoints allow.
    fn is_held_as_possible(&self, front: &Front, balancer: &Balancer, place: &Place) -> bool {
        match (self.document(front, balancer, place), self.held.balancers.get(front)) {
            (Some(possible), Some(held)) => documents::are_alike(&possible, held),
            (None, None) => true,
            _ => false,
        }
    }

    /// The document of a load balancer with those of its endpoints that exist; `None` if there are none.
    pub(super) fn document(&self, front: &Front, balancer: &Balancer, place: &Place) -> Option<LoadBalancer> {
        let ids: BTreeSet<_> = balancer.targets.iter().filter_map(|target| self.held.id_of(target)).collect();
        let source = place.source(front.family, self.held.remote(&balancer.targets).into_iter());
        (!ids.is_empty()).then(|| documents::balancer(front, balancer, ids.into_iter().collect(), source))
    }
}

impl Observe<Kernelspace> for HnsKernel {
    fn read(&mut self) -> Result<Objects<Kernelspace>, Error> {
        self.refresh()?;
        Ok(self.objects(&self.place()?))
    }

    /// HNS does not count changes.
    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// An overlay has one family, that of its source; an old HNS has one, that of the node.
    fn serves(&self, family: Family) -> bool {
        let of_source = self.settings.source_vip.map(Family::of);
        match (self.settings.is_overlay, self.settings.abilities.dual_stack) {
            (true, _) => family == of_source.unwrap_or(Family::V4),
            (false, false) => family == self.node.first_family().or(of_source).unwrap_or(Family::V4),
            (false, true) => true,
        }
    }

    /// With what kind of network there is, and what HNS can do.
    fn dataplane(&self) -> Option<Kernelspace> {
        Some(Kernelspace { settings: self.settings.clone() })
    }
}

impl Program<Kernelspace> for HnsKernel {
    fn apply(&mut self, change: &Change<Kernelspace>, _: bool) -> Result<(), Error> {
        let known = self.known.clone();
        let _busy = known.busy();
        let written = self.write(change);
        if let Some(place) = &self.place {
            known.set(self.held.identities(), place.network);
        }
        Ok(written?)
    }
}
