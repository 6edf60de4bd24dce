//! The packets that both sides are probed with: from every kind of client to every frontend.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use portolan_model::{Family, IpNet, Protocol};
use portolan_plan::{Frontend, FrontendAddress, LocalDetector, NodePlan, Packet, Plan, ServicePlan};

/// Where a probe comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    Pod,
    Node,
    Outside,
    /// An endpoint of the same Service.
    Itself,
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pod => "a pod",
            Self::Node => "the node",
            Self::Outside => "outside",
            Self::Itself => "its own pod",
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) client: Client,
    pub(crate) packet: Packet,
}

/// An address and interface that packets of a client come from.
type Sender = (Client, IpAddr, Option<Arc<str>>);

pub(crate) struct Senders<'a> {
    node: &'a NodePlan,
    families: [Vec<Sender>; 2],
}

/// How many of a load balancer's allowed ranges are probed.
const TRIED_RANGES: usize = 3;
/// How many addresses are tried until one is free.
const TRIED_ADDRESSES: u32 = 4096;

impl<'a> Senders<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let endpoints: HashSet<IpAddr> =
            plan.services.values().flat_map(|service| service.serving()).map(|endpoint| endpoint.address).collect();
        let families = Family::BOTH.map(|family| senders(&plan.node, family, &endpoints));
        Self { node: &plan.node, families }
    }

    /// One probe from every client that the rules may treat differently.
    pub(crate) fn of_frontend(&self, service: &ServicePlan, frontend: &Frontend) -> Vec<Probe> {
        let family = service.key.family;
        let mut senders = self.families[family as usize].clone();
        senders.extend(self.allowed(frontend));
        senders.extend(self.itself(service));
        self.probes(family, frontend.address, service.protocol(), &senders)
    }

    /// The same for an address that only kube-proxy has.
    pub(crate) fn of_address(&self, family: Family, address: FrontendAddress, protocol: Protocol) -> Vec<Probe> {
        self.probes(family, address, protocol, &self.families[family as usize])
    }

    fn probes(&self, family: Family, address: FrontendAddress, protocol: Protocol, senders: &[Sender]) -> Vec<Probe> {
        let (destinations, port) = match address {
            FrontendAddress::Vip(address, port) => (vec![address], port),
            FrontendAddress::NodePort(port) => (self.node_port_destinations(family), port),
        };
        let probe = |(client, source, interface): &Sender, destination: IpAddr| Probe {
            client: *client,
            packet: Packet {
                source: *source,
                interface: interface.clone(),
                destination,
                port,
                protocol,
                is_from_socket: false,
            },
        };
        let mut probes = Vec::new();
        for destination in destinations {
            probes.extend(senders.iter().map(|sender| probe(sender, destination)));
        }
        if matches!(address, FrontendAddress::NodePort(_)) {
            let loopback = loopback(family);
            probes.push(probe(&(Client::Node, loopback, None), loopback));
        }
        probes
    }

    /// One address that serves node ports and one that does not, if there are such.
    fn node_port_destinations(&self, family: Family) -> Vec<IpAddr> {
        let is_of_family = |address: &&IpAddr| Family::of(**address) == family && !address.is_loopback();
        let serves = |address: &IpAddr| self.node.serves_node_ports(family, *address);
        let all = || self.node.addresses.iter().filter(is_of_family).copied();
        all().find(serves).into_iter().chain(all().find(|address| !serves(address))).collect()
    }

    /// The first address of an allowed range, and the first one behind it, which another range may allow or not.
    fn allowed(&self, frontend: &Frontend) -> Vec<Sender> {
        let ranges = frontend.sources.iter().flatten().take(TRIED_RANGES);
        let sender = |address: IpAddr| match self.node.owns(address) {
            true => (Client::Node, address, None),
            false => (Client::Outside, address, None),
        };
        ranges.flat_map(|range| [range.addr(), behind(range)]).map(sender).collect()
    }

    /// A pod that reaches itself must see another source than its own.
    fn itself(&self, service: &ServicePlan) -> Option<Sender> {
        let endpoint = service.cluster.iter().chain(&service.local).find(|it| it.may_be_here)?;
        let senders = &self.families[service.key.family as usize];
        let interface =
            senders.iter().find(|(client, ..)| *client == Client::Pod).and_then(|(.., interface)| interface.clone());
        (!self.node.owns(endpoint.address)).then_some((Client::Itself, endpoint.address, interface))
    }
}

fn senders(node: &NodePlan, family: Family, endpoints: &HashSet<IpAddr>) -> Vec<Sender> {
    let pods = node.family(family).pods.as_ref();
    let is_free = |address: &IpAddr| !node.owns(*address) && !endpoints.contains(address);
    let is_outside = |address: &IpAddr| {
        let is_pod = pods.is_some_and(|detector| detector.detects(*address, None));
        let is_service = node.family(family).service_ranges.iter().any(|range| range.contains(address));
        is_free(address) && !is_pod && !is_service
    };
    let outside = (1..TRIED_ADDRESSES).map(|number| somewhere(family, number)).find(is_outside);
    // The node uses its first address, where there is a choice; a pod's gateway may look like a pod.
    let own = node.object_addresses.iter().chain(&node.addresses).copied();
    let of_node = own.into_iter().find(|it| Family::of(*it) == family && !it.is_loopback());
    let pod = pods.and_then(|detector| match detector {
        LocalDetector::Source(range) => last_addresses(range).find(is_free).map(|address| (address, None)),
        LocalDetector::Interface(name) => outside.map(|address| (address, Some(name.clone()))),
        LocalDetector::InterfacePrefix(prefix) => outside.map(|address| (address, Some(format!("{prefix}0").into()))),
    });
    let pod = pod.map(|(address, interface)| (Client::Pod, address, interface));
    let of_node = of_node.map(|address| (Client::Node, address, None));
    pod.into_iter().chain(of_node).chain(outside.map(|address| (Client::Outside, address, None))).collect()
}

/// Addresses for documentation and measurements, which no cluster uses.
fn somewhere(family: Family, number: u32) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0x2, 0, 0, 0, 0, 0, u16::try_from(number).unwrap_or(1)).into(),
    }
}

fn behind(range: &IpNet) -> IpAddr {
    match range.broadcast() {
        IpAddr::V4(last) => Ipv4Addr::from(u32::from(last).wrapping_add(1)).into(),
        IpAddr::V6(last) => Ipv6Addr::from(u128::from(last).wrapping_add(1)).into(),
    }
}

/// Pods get the first addresses of a range first.
fn last_addresses(range: &IpNet) -> impl Iterator<Item = IpAddr> {
    let last = range.broadcast();
    (1..TRIED_ADDRESSES).map(move |back| match last {
        IpAddr::V4(last) => Ipv4Addr::from(u32::from(last).saturating_sub(back)).into(),
        IpAddr::V6(last) => Ipv6Addr::from(u128::from(last).saturating_sub(u128::from(back))).into(),
    })
}

fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}
