//! What the operator decides about names.

use std::net::IpAddr;

use crate::wire::Name;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneConfig {
    /// The cluster's domains; pointers lead into the first.
    pub zones: Vec<Name>,
    /// How long answers may be kept, in seconds.
    pub ttl: u32,
    pub pods: Pods,
    /// A Service without any ready endpoint has no name.
    pub ignore_empty: bool,
    /// Addresses of which nothing is known are somebody else's: ask further instead of denying them.
    pub pass_unknown_addresses: bool,
    /// Names in our zones that nobody has are asked for further, too.
    pub pass_unknown_names: bool,
    /// Whether addresses are turned into names at all.
    pub serves_reverse: bool,
    /// Where this server is reached: the NS record leads there.
    pub own_addresses: Vec<IpAddr>,
}

/// `1-2-3-4.<namespace>.pod.<zone>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    #[default]
    Disabled,
    /// Any address, whether there is such a pod or not.
    Insecure,
    /// Only the addresses of pods in that namespace.
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
            serves_reverse: true,
            own_addresses: Vec::new(),
        }
    }
}
