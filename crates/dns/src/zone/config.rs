//! The settings of the operator for cluster names.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::reverse::reverse_zones;
use crate::wire::Name;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneConfig {
    /// The domains of the cluster; PTR records lead into the first.
    pub zones: Vec<Name>,
    /// The TTL of records, in seconds.
    pub ttl: u32,
    pub pods: Pods,
    /// Whether a Service without a ready endpoint does not exist.
    pub ignore_empty: bool,
    /// Whether queries for unknown addresses are forwarded instead of denied.
    pub pass_unknown_addresses: bool,
    /// Whether queries for unknown names in our zones are forwarded instead of denied.
    pub pass_unknown_names: bool,
    /// The zones in which PTR queries are answered.
    pub reverse_zones: Vec<Name>,
    /// The namespaces whose names are served; all, if there are none.
    pub namespaces: BTreeSet<String>,
    /// The addresses of this server, for the NS record.
    pub own_addresses: Vec<IpAddr>,
}

impl ZoneConfig {
    pub fn serves_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }
}

/// `1-2-3-4.<namespace>.pod.<zone>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    #[default]
    Disabled,
    /// Any address, whether a pod has it or not.
    Insecure,
    /// Only addresses of pods in that namespace.
    Verified,
}

impl Default for ZoneConfig {
    fn default() -> Self {
        Self {
            zones: vec![Name::from_text("cluster.local").expect("it is a name")],
            ttl: 5,
            pods: Pods::Disabled,
            ignore_empty: false,
            pass_unknown_addresses: true,
            pass_unknown_names: false,
            reverse_zones: reverse_zones().map(|zone| *zone).to_vec(),
            namespaces: BTreeSet::new(),
            own_addresses: Vec::new(),
        }
    }
}
