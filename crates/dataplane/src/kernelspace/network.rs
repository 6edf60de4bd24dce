//! The network of the pods, and what follows from it for endpoints and load balancers.

use std::net::IpAddr;

use portolan_hns::{Error, ErrorKind, Guid, Hns};
use portolan_model::{Family, IpNet};
use portolan_plan::NodePlan;

use super::settings::Settings;

/// The node's own addresses by family, as the cluster knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeAddresses {
    by_family: [Option<IpAddr>; 2],
    first_family: Option<Family>,
}

impl NodeAddresses {
    pub(super) fn of(node: &NodePlan) -> Self {
        let by_family = Family::BOTH.map(|family| node.primary_address(family));
        Self { by_family, first_family: node.first_family() }
    }

    pub(super) fn set(&mut self, address: IpAddr) {
        self.by_family[Family::of(address) as usize] = Some(address);
    }

    pub(super) fn of_family(self, family: Family) -> Option<IpAddr> {
        self.by_family[family as usize]
    }

    /// That of the address which the Node object has first.
    pub(super) fn first_family(self) -> Option<Family> {
        self.first_family
    }
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) network: Guid,
    pub(super) is_overlay: bool,
    /// The hardware address of the node, on an overlay.
    pub(super) host_mac: String,
    source_vip: Option<IpAddr>,
    /// Ranges of pods, and the node that has each.
    subnets: Vec<(IpNet, IpAddr)>,
    pub(super) node: NodeAddresses,
}

impl Place {
    pub(super) fn read(hns: &mut dyn Hns, settings: &Settings, node: NodeAddresses) -> Result<Self, Error> {
        let network = hns.network(&settings.network)?.ok_or_else(|| missing(&settings.network))?;
        let is_overlay = network.is_overlay();
        if is_overlay && settings.source_vip.is_none() {
            return Err(lacks_source());
        }
        let subnets = network
            .remote_subnets()
            .filter_map(|route| Some((route.destination_prefix.parse().ok()?, route.provider_address.parse().ok()?)));
        let address = Family::BOTH.into_iter().find_map(|family| node.of_family(family));
        let host_mac = match address.filter(|_| is_overlay) {
            Some(address) => hns.host_mac(address)?,
            None => String::new(),
        };
        let source_vip = settings.source_vip;
        Ok(Self { network: network.id, is_overlay, host_mac, source_vip, subnets: subnets.collect(), node })
    }

    /// The node that has the address, if it is a pod's.
    pub(super) fn subnet(&self, address: IpAddr) -> Option<IpAddr> {
        self.subnets.iter().find(|(range, _)| range.contains(&address)).map(|(_, node)| *node)
    }

    /// The node behind which an overlay finds the address. What is in no known subnet is outside of the cluster, and this node
    /// sends it there.
    pub(super) fn provider(&self, address: IpAddr) -> Option<IpAddr> {
        let found = || self.subnet(address).or_else(|| self.node.of_family(Family::of(address)));
        self.is_overlay.then(found).flatten()
    }

    /// The source that endpoints see on an overlay: another node and what is outside of the cluster answer this node's address
    /// alone. On a bridge, HNS takes an address of the node itself, and kube-proxy, too, ignores the setting there.
    pub(super) fn source(&self, family: Family, remote: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
        let answers_node = |address: IpAddr| self.subnet(address).is_none_or(|node| node == address);
        match remote.into_iter().any(answers_node) {
            _ if !self.is_overlay => None,
            true => self.node.of_family(family),
            false => self.source_vip.filter(|address| Family::of(*address) == family),
        }
    }
}

pub(super) fn missing(name: &str) -> Error {
    let text = match name {
        "" => "no network is named: set winkernel.networkName, --network-name or KUBE_NETWORK".to_owned(),
        name => format!("there is no network {name:?} yet: the CNI plugin creates it"),
    };
    let code = Error::of(ErrorKind::NetworkNotFound, "").code();
    Error::new("looking for the HNS network of the pods", code, text)
}

pub(super) fn lacks_source() -> Error {
    let code = Error::of(ErrorKind::InvalidAddress, "").code();
    Error::new("using an overlay network", code, "it needs winkernel.sourceVip (--source-vip)")
}

/// The hardware address by which HNS knows a remote endpoint, as kube-proxy makes it up.
pub(super) fn conjured_mac(address: IpAddr) -> String {
    let [a, b, c, d] = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => {
            let octets = address.octets();
            [octets[15], octets[14], octets[13], octets[12]]
        }
    };
    format!("02-11-{a:02x}-{b:02x}-{c:02x}-{d:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_those_of_kube_proxy() {
        assert_eq!(conjured_mac("10.244.2.3".parse().unwrap()), "02-11-0a-f4-02-03");
        assert_eq!(conjured_mac("fd00:10:244::1234:5678".parse().unwrap()), "02-11-78-56-34-12");
    }
}
