//! The decisions that concern the node as a whole.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use portolan_model::{Balancing, Family, IpNet, Node, Protocol, Snapshot};

use crate::config::{AddressSelector, DetectLocal, Limits, PlanConfig};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    pub name: Arc<str>,
    pub zone: Option<Arc<str>>,
    /// Every address of this node: packets with such a source originate here.
    pub addresses: Box<[IpAddr]>,
    /// The addresses of the Node object alone, which source ranges are checked against.
    pub object_addresses: Box<[IpAddr]>,
    pub masquerade_all: bool,
    pub allow_external_ips: bool,
    /// There are so many endpoints that iptables rules omit their comments.
    pub is_large: bool,
    /// How Services are balanced that do not say so themselves.
    pub balancing: Arc<Balancing>,
    /// What the active mode cannot do.
    pub limits: Limits,
    pub families: [FamilyPlan; 2],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyPlan {
    /// How pods are detected; `None` means that no packet is known to come from a pod.
    pub pods: Option<LocalDetector>,
    pub node_ports: NodePortMatch,
    /// Node ports are served on 127.0.0.1, for the node itself.
    pub loopback_node_ports: bool,
    /// Addresses in these ranges that no Service has are refused.
    pub service_ranges: Box<[IpNet]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalDetector {
    Source(IpNet),
    Interface(Arc<str>),
    InterfacePrefix(Arc<str>),
}

impl LocalDetector {
    pub fn detects(&self, source: IpAddr, interface: Option<&str>) -> bool {
        match self {
            Self::Source(range) => range.contains(&source),
            Self::Interface(name) => interface == Some(name),
            Self::InterfacePrefix(prefix) => interface.is_some_and(|name| name.starts_with(&**prefix)),
        }
    }
}

/// The destination addresses that node ports are served on. Loopback addresses are not covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortMatch {
    /// Every address that is local according to the kernel when the packet arrives.
    #[default]
    AnyLocal,
    Only(Box<[IpAddr]>),
}

impl NodePlan {
    pub fn decide(snapshot: &Snapshot, config: &PlanConfig) -> Self {
        let node = &snapshot.node;
        Self {
            name: node.name.clone(),
            zone: node.zone.clone(),
            addresses: own_addresses(node),
            object_addresses: node.addresses.clone(),
            masquerade_all: config.masquerade_all,
            allow_external_ips: config.allow_external_ips,
            is_large: false,
            balancing: Arc::new(config.balancing.clone()),
            limits: config.limits,
            families: Family::BOTH.map(|family| FamilyPlan {
                pods: detector(node, config, family),
                node_ports: node_port_match(node, config, family),
                loopback_node_ports: serves_loopback(node, config, family),
                service_ranges: of_family(&snapshot.service_ranges, family).collect(),
            }),
        }
    }

    /// Whether the plans of Services are the same for both nodes. They depend on the Node object and the pod
    /// detector, but not on the addresses of interfaces, which change with every pod; except with virtual servers.
    pub fn treats_services_like(&self, other: &Self) -> bool {
        let by_family =
            |node: &Self| node.families.each_ref().map(|family| (family.pods.clone(), family.loopback_node_ports));
        let identity = |node: &Self| (node.name.clone(), node.zone.clone(), node.object_addresses.clone());
        let settings =
            |node: &Self| (node.masquerade_all, node.allow_external_ips, node.balancing.clone(), node.limits);
        let own = |node: &Self| {
            let served = || Family::BOTH.map(|it| node.node_port_addresses(it).collect::<Vec<_>>());
            node.limits.virtual_servers.then(|| (node.addresses.clone(), served()))
        };
        let is_alike = || {
            own(self) == own(other)
                && identity(self) == identity(other)
                && settings(self) == settings(other)
                && by_family(self) == by_family(other)
        };
        // From one plan to the next, the node nearly always stays.
        std::ptr::eq(self, other) || is_alike()
    }

    /// SCTP messages, streams and multihoming do not survive a relay that splices byte streams.
    pub(crate) fn carries(&self, protocol: Protocol) -> bool {
        !self.limits.relayed || protocol != Protocol::Sctp
    }

    /// The address by which the cluster knows this node.
    pub fn primary_address(&self, family: Family) -> Option<IpAddr> {
        let of_family = |address: &IpAddr| Family::of(*address) == family && !address.is_loopback();
        self.object_addresses.iter().copied().find(of_family)
    }

    /// The family of the address that the Node object has first.
    pub fn first_family(&self) -> Option<Family> {
        self.object_addresses.iter().find(|address| !address.is_loopback()).map(|address| Family::of(*address))
    }

    pub fn family(&self, family: Family) -> &FamilyPlan {
        &self.families[family as usize]
    }

    pub fn owns(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.binary_search(&address).is_ok()
    }

    /// The addresses of the node that serve node ports in this family.
    pub fn node_port_addresses(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied().filter(move |address| self.serves_node_ports(family, *address))
    }

    pub fn serves_node_ports(&self, family: Family, address: IpAddr) -> bool {
        let plan = self.family(family);
        Family::of(address) == family
            && match &plan.node_ports {
                _ if address.is_loopback() => plan.loopback_node_ports,
                NodePortMatch::AnyLocal => self.owns(address),
                NodePortMatch::Only(addresses) => addresses.contains(&address),
            }
    }
}

fn own_addresses(node: &Node) -> Box<[IpAddr]> {
    let mut addresses: Vec<IpAddr> = node.addresses.iter().chain(&node.interface_addresses).copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into()
}

fn of_family(ranges: &[IpNet], family: Family) -> impl Iterator<Item = IpNet> {
    ranges.iter().copied().filter(move |range| Family::of_range(range) == family)
}

fn detector(node: &Node, config: &PlanConfig, family: Family) -> Option<LocalDetector> {
    match &config.detect_local {
        DetectLocal::ClusterRange(ranges) => of_family(ranges, family).next().map(LocalDetector::Source),
        DetectLocal::NodeRange => of_family(&node.pod_ranges, family).next().map(LocalDetector::Source),
        DetectLocal::BridgeInterface(name) => Some(LocalDetector::Interface(name.clone())),
        DetectLocal::InterfacePrefix(prefix) => Some(LocalDetector::InterfacePrefix(prefix.clone())),
    }
}

/// The kernel never routes packets from the IPv6 loopback address off the machine.
fn serves_loopback(node: &Node, config: &PlanConfig, family: Family) -> bool {
    let mut ranges = node_port_ranges(node, config, family).into_iter();
    let is_included = config.node_port_addresses.is_empty() || ranges.any(|range| range.contains(&LOOPBACK));
    let answers = !config.limits.virtual_servers && config.limits.load_balancers.is_none();
    config.loopback_node_ports && answers && family == Family::V4 && is_included
}

/// As in kube-proxy, a list without a range of some family leaves that family unrestricted, and ranges select among the
/// addresses of interfaces. Where those are unknown, the addresses of the Node object stand for them.
fn node_port_match(node: &Node, config: &PlanConfig, family: Family) -> NodePortMatch {
    let ranges = node_port_ranges(node, config, family);
    let is_everywhere = config.limits.load_balancers.is_some();
    if is_everywhere || ranges.is_empty() || ranges.iter().any(|range| range.prefix_len() == 0) {
        return NodePortMatch::AnyLocal;
    }
    let serves = |address: &IpAddr| !address.is_loopback() && ranges.iter().any(|range| range.contains(address));
    let own = if node.interface_addresses.is_empty() { &node.addresses } else { &node.interface_addresses };
    let mut addresses: Vec<IpAddr> = own.iter().copied().filter(serves).collect();
    addresses.sort_unstable();
    addresses.dedup();
    NodePortMatch::Only(addresses.into())
}

fn node_port_ranges(node: &Node, config: &PlanConfig, family: Family) -> Vec<IpNet> {
    config.node_port_addresses.iter().flat_map(|selector| expand(selector, node, family)).collect()
}

fn expand(selector: &AddressSelector, node: &Node, family: Family) -> Vec<IpNet> {
    let ranges = match selector {
        AddressSelector::Primary => primary_addresses(node),
        AddressSelector::Localhost => vec![net("127.0.0.0/8"), net("::1/128")],
        AddressSelector::All => vec![net("0.0.0.0/0"), net("::/0")],
        AddressSelector::Range(range) => vec![*range],
    };
    of_family(&ranges, family).collect()
}

fn primary_addresses(node: &Node) -> Vec<IpNet> {
    let first = |family| node.addresses.iter().copied().find(|address| Family::of(*address) == family);
    Family::BOTH.into_iter().filter_map(first).filter(|address| !address.is_loopback()).map(IpNet::from).collect()
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a constant range is well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(config: &PlanConfig) -> NodePlan {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let node = Node {
            name: "here".into(),
            addresses: [address("192.168.50.1"), address("203.0.113.7")].into(),
            interface_addresses: [address("127.0.0.1"), address("192.168.50.1"), address("10.0.0.1")].into(),
            ..Node::default()
        };
        NodePlan::decide(&Snapshot { node: Arc::new(node), ..Snapshot::default() }, config)
    }

    /// The external address of a Node is often that of a NAT gateway.
    #[test]
    fn ranges_select_addresses_of_interfaces_only() {
        let range = |text| AddressSelector::Range(net(text));
        let node_port_addresses = vec![range("203.0.113.0/24"), range("192.168.0.0/16")];
        let plan = node(&PlanConfig { node_port_addresses, ..PlanConfig::default() });
        let only = NodePortMatch::Only(["192.168.50.1".parse().unwrap()].into());
        assert_eq!(plan.family(Family::V4).node_ports, only);
    }

    /// In iptables mode the rules of every Service with node ports depend on it.
    #[test]
    fn loopback_node_ports_concern_all_services() {
        let config = || PlanConfig { node_port_addresses: Vec::new(), ..PlanConfig::default() };
        let with = |loopback_node_ports| node(&PlanConfig { loopback_node_ports, ..config() });
        assert!(with(true).family(Family::V4).loopback_node_ports);
        assert!(with(true).treats_services_like(&with(true)) && !with(true).treats_services_like(&with(false)));
    }
}
