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
    /// The node that the endpoint runs on; `None` if the slice names none, as manually written slices often do.
    pub node: Option<Arc<str>>,
    /// `None` when the slice carries no hints for it, which is nearly always.
    pub hints: Option<Box<Hints>>,
    pub hostname: Option<Box<str>>,
    /// The Pod that `targetRef` names, in the namespace of the slice.
    pub pod: Option<Arc<str>>,
    pub zone: Option<Arc<str>>,
    pub weight: Weight,
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
