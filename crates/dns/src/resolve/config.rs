//! The settings of the resolver.

use crate::acl::Acl;
use crate::cache::CacheConfig;
use crate::forward::ForwardConfig;
use crate::hosts::Hosts;
use crate::wire::Name;
use crate::zone::ZoneConfig;

/// The settings of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub zone: ZoneConfig,
    pub forward: ForwardConfig,
    pub cache: CacheConfig,
    pub hosts: Hosts,
    pub acl: Vec<Acl>,
    pub autopath: Autopath,
    /// Queries per second that one client may send over UDP.
    pub rate_limit: Option<u32>,
    pub log_queries: bool,
}

/// The clients whose search path is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Autopath {
    #[default]
    Off,
    /// Pods, recognized by their address, in their own namespace; followed by these search suffixes of the host.
    Pods(Vec<Name>),
    /// Any client whose query looks like one from a search list. Only a manual query for such a name shows the
    /// difference.
    AnyClient(Vec<Name>),
}
