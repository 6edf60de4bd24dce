//! The objects, and the rules by which HNS accepts and refuses changes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Endpoint, Error, ErrorKind, Guid, IpConfiguration, LoadBalancer, Network, Version};

use super::Habits;

pub(super) struct Store {
    pub(super) habits: Habits,
    pub(super) networks: Vec<Network>,
    pub(super) endpoints: BTreeMap<Guid, Endpoint>,
    pub(super) balancers: BTreeMap<Guid, LoadBalancer>,
    created: u64,
}

impl Store {
    pub(super) fn new(habits: Habits) -> Self {
        Self { habits, networks: Vec::new(), endpoints: BTreeMap::new(), balancers: BTreeMap::new(), created: 0 }
    }

    pub(super) fn restore(
        &mut self,
        networks: &[Network],
        endpoints: &[Endpoint],
        balancers: &[LoadBalancer],
        created: u64,
    ) {
        self.networks = networks.to_vec();
        self.endpoints = endpoints.iter().filter_map(|it| Some((it.id?, it.clone()))).collect();
        self.balancers = balancers.iter().filter_map(|it| Some((it.id?, it.clone()))).collect();
        self.created = created;
    }

    pub(super) fn remove_network(&mut self, name: &str) {
        let gone: Vec<Guid> = self.networks.iter().filter(|it| it.name == name).map(|it| it.id).collect();
        self.networks.retain(|network| !gone.contains(&network.id));
        self.endpoints.retain(|_, endpoint| endpoint.host_compute_network.is_none_or(|id| !gone.contains(&id)));
        let known = &self.endpoints;
        self.balancers.retain(|_, balancer| balancer.host_compute_endpoints.iter().all(|id| known.contains_key(id)));
    }

    pub(super) fn add_local_endpoint(&mut self, network: Guid, name: &str, address: IpAddr) {
        let id = self.identity(Guid::of(&format!("local {name} {address} {}", self.created)));
        let configuration = IpConfiguration { ip_address: address.to_string(), prefix_length: 24 };
        let endpoint = Endpoint {
            id: Some(id),
            name: name.into(),
            host_compute_network: Some(network),
            ip_configurations: vec![configuration],
            mac_address: "00-15-5D-01-02-03".into(),
            ..Endpoint::default()
        };
        self.endpoints.insert(id, endpoint);
    }

    pub(super) fn remove_local_endpoint(&mut self, address: IpAddr) {
        let address = address.to_string();
        let is_meant =
            |it: &Endpoint| !it.is_remote() && it.ip_configurations.iter().any(|ip| ip.ip_address == address);
        self.endpoints.retain(|_, endpoint| !is_meant(endpoint));
    }

    pub(super) fn endpoints_of(&self, network: Guid) -> Result<Vec<Endpoint>, Error> {
        if self.networks.iter().all(|it| it.id != network) {
            return Err(Error::of(ErrorKind::NetworkNotFound, "listing endpoints"));
        }
        let is_here = |endpoint: &&Endpoint| endpoint.host_compute_network == Some(network);
        Ok(self.endpoints.values().filter(is_here).cloned().collect())
    }

    /// Two endpoints may have the same address, one of this node and a remote one, as on Windows Server 2019 and 2022.
    pub(super) fn create_endpoint(&mut self, network: Guid, id: Guid, settings: &Endpoint) -> Result<(), Error> {
        let attempted = || format!("creating an endpoint with the document {settings:?}");
        let mut endpoint: Endpoint =
            understood(settings).ok_or_else(|| Error::of(ErrorKind::InvalidDocument, attempted()))?;
        if self.networks.iter().all(|it| it.id != network) {
            return Err(Error::of(ErrorKind::NetworkNotFound, attempted()));
        }
        let addresses = &endpoint.ip_configurations;
        if addresses.is_empty() || !addresses.iter().all(|it| is_address(&it.ip_address)) {
            return Err(Error::of(ErrorKind::InvalidAddress, attempted()));
        }
        let is_taken = |other: &Endpoint| {
            other.host_compute_network == Some(network)
                && other.is_remote() == endpoint.is_remote()
                && other.ip_configurations.iter().any(|it| addresses.iter().any(|ip| ip.ip_address == it.ip_address))
        };
        if self.endpoints.values().any(is_taken) || self.endpoints.contains_key(&id) {
            return Err(Error::of(ErrorKind::AlreadyExists, attempted()));
        }
        let id = self.identity(id);
        (endpoint.id, endpoint.host_compute_network) = (Some(id), Some(network));
        endpoint.mac_address = endpoint.mac_address.to_uppercase();
        self.endpoints.insert(id, endpoint);
        Ok(())
    }

    /// Load balancers keep the identity of an endpoint that is gone.
    pub(super) fn delete_endpoint(&mut self, id: Guid) -> Result<(), Error> {
        let removed = self.endpoints.remove(&id);
        removed.map(drop).ok_or_else(|| Error::of(ErrorKind::EndpointNotFound, format!("deleting the endpoint {id}")))
    }

    pub(super) fn create_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error> {
        let attempted = || format!("creating a load balancer with the document {settings:?}");
        let balancer = self.checked(settings, &attempted)?;
        let is_taken = |other: &LoadBalancer| front(other) == front(&balancer);
        if self.balancers.contains_key(&id) || self.balancers.values().any(is_taken) {
            return Err(Error::of(ErrorKind::AlreadyExists, attempted()));
        }
        let id = self.identity(id);
        self.balancers.insert(id, LoadBalancer { id: Some(id), ..balancer });
        Ok(())
    }

    pub(super) fn modify_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error> {
        let attempted = || format!("modifying the load balancer {id} to {settings:?}");
        if self.habits.version < Version::MODIFIES || self.habits.lacks_modification {
            return Err(Error::of(ErrorKind::NotImplemented, attempted()));
        }
        let balancer = self.checked(settings, &attempted)?;
        let held = self.balancers.get_mut(&id).ok_or_else(|| Error::of(ErrorKind::ObjectNotFound, attempted()))?;
        if front(held) != front(&balancer) {
            return Err(Error::of(ErrorKind::Other, attempted()));
        }
        *held = LoadBalancer { id: Some(id), ..balancer };
        Ok(())
    }

    pub(super) fn delete_balancer(&mut self, id: Guid) -> Result<(), Error> {
        let removed = self.balancers.remove(&id);
        removed
            .map(drop)
            .ok_or_else(|| Error::of(ErrorKind::ObjectNotFound, format!("deleting the load balancer {id}")))
    }

    fn checked(&self, settings: &LoadBalancer, attempted: &dyn Fn() -> String) -> Result<LoadBalancer, Error> {
        let mut balancer: LoadBalancer =
            understood(settings).ok_or_else(|| Error::of(ErrorKind::InvalidDocument, attempted()))?;
        if !balancer.frontend_vips.iter().all(|it| is_address(it)) {
            return Err(Error::of(ErrorKind::InvalidAddress, attempted()));
        }
        if balancer.port_mappings.is_empty() || balancer.host_compute_endpoints.is_empty() {
            return Err(Error::of(ErrorKind::InvalidDocument, attempted()));
        }
        if balancer.flags & crate::balancer_flags::DSR != 0 && !self.habits.version.returns_directly() {
            return Err(Error::of(ErrorKind::InvalidDocument, attempted()));
        }
        if !balancer.host_compute_endpoints.iter().all(|id| self.endpoints.contains_key(id)) {
            return Err(Error::of(ErrorKind::EndpointNotFound, attempted()));
        }
        if self.habits.version < Version::AFFINITY {
            // A field that it does not know.
            balancer.port_mappings.iter_mut().for_each(|mapping| mapping.distribution_type = 0);
        }
        Ok(balancer)
    }

    fn identity(&mut self, chosen: Guid) -> Guid {
        self.created += 1;
        match self.habits.ignores_identities {
            true => Guid::of(&format!("an identity of HNS's own {}", self.created)),
            false => chosen,
        }
    }
}

/// A load balancer's addresses, protocol and port, of which there is one each.
fn front(balancer: &LoadBalancer) -> (Vec<IpAddr>, Option<(u32, u16)>, u32) {
    let mapping = balancer.port_mappings.first().map(|it| (it.protocol, it.external_port));
    let ipv6 = balancer.flags & crate::balancer_flags::IPV6;
    (balancer.frontend_vips.iter().filter_map(|it| it.parse().ok()).collect(), mapping, ipv6)
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// The document as it arrives: as text.
fn understood<T: Serialize + DeserializeOwned>(document: &T) -> Option<T> {
    serde_json::from_str(&serde_json::to_string(document).ok()?).ok()
}
