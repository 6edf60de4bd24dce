//! kube-proxy's settings for Windows, as this mode reads them.

use std::net::IpAddr;

use portolan_plan::{Limits, LoadBalancers};

use super::abilities::Abilities;
use crate::ModeSettings;

/// The variable from which kube-proxy takes the network's name if no setting has it.
const NETWORK_VARIABLE: &str = "KUBE_NETWORK";
const DEFAULT_ROOT_ENDPOINT: &str = "cbr0";
const DEFAULT_HEALTH_PORT: u16 = 10256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The HNS network of the pods.
    pub network: String,
    /// The address that endpoints see, where the source is not kept.
    pub source_vip: Option<IpAddr>,
    /// Traffic to ClusterIPs keeps its source.
    pub direct_return: bool,
    /// The endpoint that leads to the node itself.
    pub root_endpoint: String,
    /// With forwardHealthCheckVip, the port of this process's own health check.
    pub forwarded_health_port: Option<u16>,
    /// What kind of network it is, as soon as it is known.
    pub is_overlay: bool,
    /// What HNS can do, as soon as its version is known.
    pub abilities: Abilities,
}

impl Settings {
    pub fn read(settings: &ModeSettings) -> Self {
        let options = &settings.options;
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        let forwards = options.boolean("winkernel.forwardHealthCheckVip");
        Self {
            network: or(options.text("winkernel.networkName"), ""),
            source_vip: options.text("winkernel.sourceVip").parse().ok(),
            direct_return: options.boolean("winkernel.enableDSR"),
            root_endpoint: or(options.text("winkernel.rootHnsEndpointName"), DEFAULT_ROOT_ENDPOINT),
            forwarded_health_port: forwards.then(|| health_port(options.text("healthzBindAddress"))),
            is_overlay: false,
            abilities: Abilities::ALL,
        }
    }

    /// With the name of the network from the environment, where no setting has one.
    pub(super) fn of_process(settings: &ModeSettings) -> Self {
        let mut read = Self::read(settings);
        if read.network.is_empty() {
            read.network = std::env::var(NETWORK_VARIABLE).unwrap_or_default();
        }
        read
    }

    pub(super) fn limits(&self, limits: Limits) -> Limits {
        let Self { direct_return, forwarded_health_port, .. } = *self;
        Limits { load_balancers: Some(LoadBalancers { direct_return, forwarded_health_port }), ..limits }
    }

    pub(super) fn describe(&self) -> String {
        let Self { network, source_vip, direct_return, root_endpoint, forwarded_health_port, .. } = self;
        let source_vip = source_vip.map_or_else(|| "none".to_owned(), |address| address.to_string());
        let forwarded = forwarded_health_port.map_or_else(|| "none".to_owned(), |port| port.to_string());
        format!(
            "network: {network:?}, source_vip: {source_vip}, direct_return: {direct_return}, root_endpoint: \
             {root_endpoint:?}, forwarded_health_port: {forwarded}"
        )
    }
}

fn health_port(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(DEFAULT_HEALTH_PORT)
}
