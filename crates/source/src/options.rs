//! What is read, and for what kind of cluster.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;

/// Where the manifests are, and the cluster that they describe.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Files, or directories whose own `*.yaml`, `*.yml` and `*.json` files are read.
    pub paths: Vec<PathBuf>,
    pub node_name: String,
    /// The ranges of ClusterIPs. The first one gives the primary family.
    pub service_ranges: Vec<IpNet>,
    pub node_port_range: RangeInclusive<u16>,
    pub state: State,
    /// The manifests are read only once, so that a path may be a pipe.
    pub is_read_once: bool,
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
            is_read_once: false,
        }
    }
}

/// The directory of the state file, which keeps addresses and node ports across restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    None,
    /// For commands that change nothing.
    ReadOnly(PathBuf),
    ReadWrite(PathBuf),
}
