//! EndpointSlices in the compact form that stays in memory.

use std::net::IpAddr;
use std::sync::Arc;

use crate::{Family, Protocol, Weight};

/// All slices of one Service, ordered by slice name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slices(pub Box<[Arc<Slice>]>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub name: Arc<str>,
    pub family: Family,
    /// Label `service.kubernetes.io/headless`: DNS has its endpoints, and rules do not.
    pub is_for_names_only: bool,
    pub ports: Box<[SlicePort]>,
    pub endpoints: Box<[SliceEndpoint]>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlicePort {
    /// Matches the name of a Service port; empty for the unnamed one.
    pub name: Arc<str>,
    pub protocol: Protocol,
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    pub address: IpAddr,
    pub conditions: Conditions,
    pub weight: Weight,
    /// `None` if the slice names neither node nor zone, as manually written slices often do.
    pub place: Option<Arc<Place>>,
    /// The Pod that `targetRef` names, in the namespace of the slice.
    pub pod: Option<Box<str>>,
    pub extras: Option<Box<Extras>>,
}

/// Where an endpoint runs. A cluster has few places, and each is in memory once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    pub node: Option<Arc<str>>,
    pub zone: Option<Arc<str>>,
}

/// What few endpoints have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    pub hints: Hints,
    pub hostname: Option<Box<str>>,
}

impl SliceEndpoint {
    /// A ready one at an unknown place.
    pub fn new(address: IpAddr) -> Self {
        Self { address, conditions: Conditions::READY, weight: Weight::default(), place: None, pod: None, extras: None }
    }

    /// A ready one on that node.
    pub fn on(node: &str, address: IpAddr) -> Self {
        let place = Place { node: Some(node.into()), zone: None };
        Self { place: Some(Arc::new(place)), ..Self::new(address) }
    }

    pub fn node(&self) -> Option<&Arc<str>> {
        self.place.as_ref()?.node.as_ref()
    }

    pub fn zone(&self) -> Option<&Arc<str>> {
        self.place.as_ref()?.zone.as_ref()
    }

    /// `None` when the slice carries no hints for it, which is nearly always.
    pub fn hints(&self) -> Option<&Hints> {
        self.extras.as_ref().map(|extras| &extras.hints).filter(|hints| **hints != Hints::default())
    }

    pub fn hostname(&self) -> Option<&str> {
        self.extras.as_ref()?.hostname.as_deref()
    }
}

impl Place {
    /// `None` if nothing is known.
    pub fn known(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

impl Extras {
    /// `None` if there are none.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Readiness as kube-proxy reads it: an absent `ready` or `serving` counts as true, an absent `terminating` as false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
}

impl Conditions {
    pub const READY: Self = Self { ready: true, serving: true, terminating: false };
    pub const NOT_READY: Self = Self { ready: false, serving: false, terminating: false };
    /// Terminating, but still serving.
    pub const DRAINING: Self = Self { ready: false, serving: true, terminating: true };
}

/// The nodes or zones that should use an endpoint (topology hints).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub zones: Box<[Arc<str>]>,
    pub nodes: Box<[Arc<str>]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large cluster has hundreds of thousands of them all the time.
    #[test]
    fn endpoints_are_small() {
        assert!(size_of::<SliceEndpoint>() <= 56, "{}", size_of::<SliceEndpoint>());
    }
}
