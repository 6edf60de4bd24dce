//! FACTS from YAML: where the snapshot comes from when there is no cluster.
//!
//! This crate is the only one that knows Kubernetes' objects. It reads Services, EndpointSlices, Endpoints, Pods and
//! Nodes from files and plays the control plane for them: it gives out ClusterIPs and node ports, and makes
//! EndpointSlices from selectors and Pods. A bad document harms only itself: its object's last good version stays in
//! force, and a [`Problem`] says what is wrong and where.
#![forbid(unsafe_code)]

mod allocate;
pub mod cluster;
mod convert;
mod endpoints;
mod error;
mod files;
mod intern;
mod manifests;
mod object;
mod parse;
mod pods;
mod read;
mod report;
mod store;
mod watch;
mod world;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;

pub use error::Error;
pub use manifests::Manifests;
pub use report::{Ignored, Problem, Report};
pub use watch::Watcher;

/// Where the objects are, and what kind of cluster they live in.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Files, or directories whose own `*.yaml`, `*.yml` and `*.json` files are read.
    pub paths: Vec<PathBuf>,
    pub node_name: String,
    /// Where ClusterIPs come from. The first range gives the primary family.
    pub service_ranges: Vec<IpNet>,
    pub node_port_range: RangeInclusive<u16>,
    pub state: State,
}

impl Default for Options {
    fn default() -> Self {
        let range = ipnet::Ipv4Net::new_assert([10, 96, 0, 0].into(), 16);
        Self {
            paths: Vec::new(),
            node_name: String::new(),
            service_ranges: vec![range.into()],
            node_port_range: 30000..=32767,
            state: State::None,
        }
    }
}

/// The directory where it is kept who holds which address, so that a restart moves none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    None,
    /// For questions that must not leave a trace.
    ReadOnly(PathBuf),
    ReadWrite(PathBuf),
}
