//! The service itself: one method for each operation.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::{Endpoint, Error, Guid, LoadBalancer, Network};

/// The version of HNS, which decides what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

impl Version {
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The first one whose load balancers can be modified.
    pub const MODIFIES: Self = Self::new(15, 5);
    /// The first one with the API that is used here.
    pub const OLDEST: Self = Self::new(9, 2);
    /// The first one that keeps the connections of a client on one endpoint.
    pub const AFFINITY: Self = Self::new(12, 0);
    /// The first one that serves both address families.
    pub const DUAL_STACK: Self = Self::new(11, 10);

    /// Whether replies can go to clients directly.
    pub fn returns_directly(self) -> bool {
        (self.major == 9 && self.minor >= 3) || self >= Self::new(10, 2)
    }
}

/// What a proxy asks of HNS. Each method is one operation; creations take the identity of the new object, so that no other
/// operation is needed to learn it.
pub trait Hns: Send {
    fn version(&mut self) -> Result<Version, Error>;

    fn networks(&mut self) -> Result<Vec<Network>, Error>;

    /// `None` if there is no network of this name.
    fn network(&mut self, name: &str) -> Result<Option<Network>, Error>;

    /// The endpoints of a network, those of this node and remote ones.
    fn endpoints(&mut self, network: Guid) -> Result<Vec<Endpoint>, Error>;

    /// The identities of these endpoints and of all load balancers, which cost much less than their content.
    fn identities(&mut self, network: Guid) -> Result<BTreeSet<Guid>, Error>;

    fn create_endpoint(&mut self, network: Guid, id: Guid, settings: &Endpoint) -> Result<(), Error>;

    fn delete_endpoint(&mut self, id: Guid) -> Result<(), Error>;

    fn load_balancers(&mut self) -> Result<Vec<LoadBalancer>, Error>;

    fn create_load_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error>;

    fn modify_load_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error>;

    fn delete_load_balancer(&mut self, id: Guid) -> Result<(), Error>;

    /// The hardware address of the interface with this address, as HNS spells it.
    fn host_mac(&mut self, address: IpAddr) -> Result<String, Error>;
}
