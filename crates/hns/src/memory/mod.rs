//! HNS in memory.
//!
//! Clones are the same service, as for two processes of one machine: a proxy can die between two calls, and its successor finds
//! what it left.

mod failures;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Endpoint, Error, Guid, Hns, LoadBalancer, Network, Version};
use failures::Failures;
use store::Store;

/// What HNS does that its documentation does not say. The default is a recent one that behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    pub version: Version,
    /// Objects get an identity of HNS's own making, whatever the caller chooses.
    pub ignores_identities: bool,
    /// The version promises that load balancers can be modified, and the call answers "not implemented".
    pub lacks_modification: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self { version: Version::MODIFIES, ignores_identities: false, lacks_modification: false }
    }
}

/// The operations, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Version,
    Network,
    Endpoints,
    Identities,
    CreateEndpoint,
    DeleteEndpoint,
    LoadBalancers,
    CreateLoadBalancer,
    ModifyLoadBalancer,
    DeleteLoadBalancer,
    HostMac,
}

#[derive(Clone)]
pub struct MemoryHns(Arc<Mutex<Service>>);

struct Service {
    store: Store,
    failures: Failures,
    calls: BTreeMap<Operation, usize>,
}

impl MemoryHns {
    /// An HNS without networks.
    pub fn new(habits: Habits) -> Self {
        Self::failing(habits, 0, 1)
    }

    /// One call in so many fails; 0 means never.
    pub fn failing(habits: Habits, fails_one_in: u64, seed: u64) -> Self {
        let failures = Failures::new(fails_one_in, seed);
        Self(Arc::new(Mutex::new(Service { store: Store::new(habits), failures, calls: BTreeMap::new() })))
    }

    fn service(&self) -> MutexGuard<'_, Service> {
        self.0.lock().expect("no call panics")
    }

    pub fn add_network(&self, network: Network) {
        self.service().store.networks.push(network);
    }

    /// What an earlier service held. `created` makes identities of its own making new ones.
    pub fn restore(&self, networks: &[Network], endpoints: &[Endpoint], balancers: &[LoadBalancer], created: u64) {
        self.service().store.restore(networks, endpoints, balancers, created);
    }

    /// The network has other policies now.
    pub fn set_network(&self, network: Network) {
        let mut service = self.service();
        service.store.networks.retain(|it| it.id != network.id);
        service.store.networks.push(network);
    }

    /// The network is gone, and everything on it.
    pub fn remove_network(&self, name: &str) {
        self.service().store.remove_network(name);
    }

    /// An endpoint of this node, as a CNI plugin creates it.
    pub fn add_local_endpoint(&self, network: Guid, name: &str, address: IpAddr) {
        self.service().store.add_local_endpoint(network, name, address);
    }

    pub fn remove_local_endpoint(&self, address: IpAddr) {
        self.service().store.remove_local_endpoint(address);
    }

    /// Everything that there is, without a call.
    pub fn held(&self) -> (Vec<Endpoint>, Vec<LoadBalancer>) {
        let service = self.service();
        (service.store.endpoints.values().cloned().collect(), service.store.balancers.values().cloned().collect())
    }

    /// One endpoint, without a call.
    pub fn endpoint(&self, id: Guid) -> Option<Endpoint> {
        self.service().store.endpoints.get(&id).cloned()
    }

    /// One load balancer, without a call.
    pub fn load_balancer(&self, id: Guid) -> Option<LoadBalancer> {
        self.service().store.balancers.get(&id).cloned()
    }

    /// The calls since the last time this was asked, by operation.
    pub fn take_calls(&self) -> BTreeMap<Operation, usize> {
        std::mem::take(&mut self.service().calls)
    }

    /// After so many calls every further one fails without effect, until [`Self::revive`]: for its caller, this is its death.
    pub fn die_after(&self, calls: u64) {
        self.service().failures.die_after(calls);
    }

    /// Whether it came to that.
    pub fn revive(&self) -> bool {
        self.service().failures.revive()
    }

    /// A number from the generator that also decides about failures.
    pub fn random(&self, below: u64) -> u64 {
        self.service().failures.below(below)
    }

    /// Counts the call, and lets it fail before or after its effect.
    fn call<T>(&self, operation: Operation, effect: impl FnOnce(&mut Store) -> Result<T, Error>) -> Result<T, Error> {
        let mut service = self.service();
        *service.calls.entry(operation).or_default() += 1;
        let failure = service.failures.next(operation);
        if let Some((error, false)) = failure {
            return Err(error);
        }
        let done = effect(&mut service.store);
        failure.map_or(done, |(error, _)| Err(error))
    }
}

impl Hns for MemoryHns {
    fn version(&mut self) -> Result<Version, Error> {
        self.call(Operation::Version, |store| Ok(store.habits.version))
    }

    fn networks(&mut self) -> Result<Vec<Network>, Error> {
        self.call(Operation::Network, |store| Ok(store.networks.clone()))
    }

    fn network(&mut self, name: &str) -> Result<Option<Network>, Error> {
        self.call(Operation::Network, |store| Ok(store.networks.iter().find(|it| it.name == name).cloned()))
    }

    fn endpoints(&mut self, network: Guid) -> Result<Vec<Endpoint>, Error> {
        self.call(Operation::Endpoints, |store| store.endpoints_of(network))
    }

    fn identities(&mut self, network: Guid) -> Result<BTreeSet<Guid>, Error> {
        self.call(Operation::Identities, |store| {
            let endpoints = store.endpoints_of(network)?;
            Ok(endpoints.iter().filter_map(|it| it.id).chain(store.balancers.keys().copied()).collect())
        })
    }

    fn create_endpoint(&mut self, network: Guid, id: Guid, settings: &Endpoint) -> Result<(), Error> {
        self.call(Operation::CreateEndpoint, |store| store.create_endpoint(network, id, settings))
    }

    fn delete_endpoint(&mut self, id: Guid) -> Result<(), Error> {
        self.call(Operation::DeleteEndpoint, |store| store.delete_endpoint(id))
    }

    fn load_balancers(&mut self) -> Result<Vec<LoadBalancer>, Error> {
        self.call(Operation::LoadBalancers, |store| Ok(store.balancers.values().cloned().collect()))
    }

    fn create_load_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error> {
        self.call(Operation::CreateLoadBalancer, |store| store.create_balancer(id, settings))
    }

    fn modify_load_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error> {
        self.call(Operation::ModifyLoadBalancer, |store| store.modify_balancer(id, settings))
    }

    fn delete_load_balancer(&mut self, id: Guid) -> Result<(), Error> {
        self.call(Operation::DeleteLoadBalancer, |store| store.delete_balancer(id))
    }

    fn host_mac(&mut self, _: IpAddr) -> Result<String, Error> {
        self.call(Operation::HostMac, |_| Ok("00-15-5D-00-00-01".into()))
    }
}
