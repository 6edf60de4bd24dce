//! Clusters from bytes: Services, EndpointSlices, a node and settings, with names and addresses from small ranges, so that
//! they collide.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{
    Algorithm, Balancing, Conditions, Extras, Family, HashOf, Hints, IpNet, Node, Place, Protocol, Service,
    ServiceKind, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort, Slices, Snapshot, TrafficPolicy, Weight,
};
use portolan_plan::{AddressSelector, DetectLocal, Packet, PlanConfig};

use crate::dice::Dice;

const NODE: &str = "node-a";
const SERVICES: u8 = 6;
/// The pod detector by interface matches these.
const POD_INTERFACE: &str = "veth-a1";
const OUTER_INTERFACE: &str = "eth2";

fn address(text: &str) -> IpAddr {
    text.parse().expect("it is an address")
}

fn range(text: &str) -> IpNet {
    text.parse().expect("it is a range")
}

/// The number of an address, in one family.
fn numbered(family: Family, v4: &str, v6: &str, number: u8) -> IpAddr {
    match family {
        Family::V4 => address(&format!("{v4}{number}")),
        Family::V6 => address(&format!("{v6}{number:x}")),
    }
}

pub(crate) fn cluster_ip(family: Family, number: u8) -> IpAddr {
    numbered(family, "10.96.0.", "fd00:10:96::", number + 1)
}

fn virtual_ip(family: Family, number: u8) -> IpAddr {
    numbered(family, "198.51.100.", "2001:db8:51::", number + 1)
}

/// Pods 0 to 3 are on the node.
fn pod(family: Family, number: u8) -> IpAddr {
    match number {
        0..4 => numbered(family, "10.244.1.", "fd00:10:244:1::", number + 2),
        _ => numbered(family, "10.244.2.", "fd00:10:244:2::", number + 2),
    }
}

fn own_address(family: Family, number: u8) -> IpAddr {
    match number {
        0 => numbered(family, "192.168.50.", "fd00:50::", 1),
        1 => numbered(family, "10.244.1.", "fd00:10:244:1::", 1),
        _ => numbered(family, "203.0.113.", "2001:db8:113::", 1),
    }
}

fn outside(family: Family, number: u8) -> IpAddr {
    numbered(family, "192.0.2.", "2001:db8:2::", number.wrapping_mul(16).wrapping_add(9))
}

fn name(number: u8) -> ServiceName {
    ServiceName::new("default", &format!("service-{number}"))
}

fn node(dice: &mut Dice<'_>) -> Node {
    let families = dice.pick(&[&Family::BOTH[..], &Family::BOTH[..1]]);
    let all = |number| families.iter().map(move |family| own_address(*family, number));
    Node {
        name: NODE.into(),
        zone: dice.pick(&[None, Some("zone-0".into()), Some("zone-1".into())]),
        addresses: all(0).collect(),
        pod_ranges: [range("10.244.1.0/24"), range("fd00:10:244:1::/64")].into(),
        interface_addresses: all(0).chain(all(1)).chain(all(2)).chain([address("127.0.0.1"), address("::1")]).collect(),
    }
}

fn service(dice: &mut Dice<'_>, number: u8) -> Service {
    const KINDS: [ServiceKind; 3] = [ServiceKind::ClusterIp, ServiceKind::NodePort, ServiceKind::LoadBalancer];
    const POLICIES: [TrafficPolicy; 2] = [TrafficPolicy::Cluster, TrafficPolicy::Local];
    let mut service = Service::empty(name(number));
    service.kind = dice.pick(&KINDS);
    let families = families(dice);
    service.cluster_ips = families.iter().map(|family| cluster_ip(*family, number)).collect();
    service.ports = ports(dice, service.kind != ServiceKind::ClusterIp);
    service.external_ips = dice.several(2, |dice| virtual_ip(families[0], dice.below(4))).into();
    if service.kind == ServiceKind::LoadBalancer {
        service.load_balancer_ips = dice.several(2, |dice| virtual_ip(families[0], dice.below(4))).into();
        service.source_ranges = dice.several(3, source_range).into();
        service.external_policy = dice.pick(&POLICIES);
    }
    service.internal_policy = dice.pick(&POLICIES);
    service.affinity_seconds = dice.pick(&[None, None, None, Some(60), Some(10_800)]);
    service.scheduler = dice.pick(&[None, None, Some("sh".into())]);
    service.balancing = dice.one_in(2).then(|| Arc::new(balancing(dice)));
    service
}

fn balancing(dice: &mut Dice<'_>) -> Balancing {
    Balancing {
        algorithm: dice.pick(&Algorithm::ALL.map(Some)),
        hash: dice.pick(&[None, Some(HashOf::Client), Some(HashOf::ClientAndPort)]),
        table_size: "251".parse().ok(),
        ..Balancing::default()
    }
}

fn families(dice: &mut Dice<'_>) -> Vec<Family> {
    dice.pick(&[vec![Family::V4], vec![Family::V4, Family::V6], vec![Family::V6]])
}

fn source_range(dice: &mut Dice<'_>) -> IpNet {
    const RANGES: [&str; 8] = [
        "192.0.2.0/28",
        "192.0.2.0/24",
        "0.0.0.0/0",
        "10.244.1.0/24",
        "192.168.50.1/32",
        "2001:db8:2::/64",
        "fd00:10:244:1::2/128",
        "::/0",
    ];
    range(dice.pick(&RANGES))
}

/// Ports of a Service differ in protocol and number, and so do its node ports.
fn ports(dice: &mut Dice<'_>, has_node_ports: bool) -> Box<[ServicePort]> {
    let mut ports: Vec<ServicePort> = Vec::new();
    for _ in 0..=dice.below(3) {
        let (number, protocol) = (dice.below(3), dice.pick(&Protocol::ALL));
        let node_port = (has_node_ports && !dice.one_in(3)).then(|| 30_000 + u16::from(dice.below(4)));
        let port = ServicePort { name: format!("p{number}").into(), protocol, port: 80 + u16::from(number), node_port };
        let is_same = |it: &ServicePort| {
            it.protocol == protocol && (it.port == port.port || it.node_port.is_some() && it.node_port == node_port)
        };
        if !ports.iter().any(|it| is_same(it) || it.name == port.name) {
            ports.push(port);
        }
    }
    ports.into()
}

fn slices(dice: &mut Dice<'_>, number: u8) -> Slices {
    let slice = |index: u8, dice: &mut Dice<'_>| {
        let family = dice.pick(&Family::BOTH);
        let target = 8080 + u16::from(dice.below(2));
        let port = |(number, protocol)| SlicePort { name: format!("p{number}").into(), protocol, port: target };
        let all = (0..3u8).flat_map(|number| Protocol::ALL.map(|protocol| (number, protocol)));
        let endpoints = dice.several(5, |dice| endpoint(dice, family)).into();
        Arc::new(Slice {
            name: format!("s{number}-{index}").into(),
            family,
            is_for_names_only: false,
            ports: all.map(port).collect(),
            endpoints,
        })
    };
    Slices((0..dice.below(3)).map(|index| slice(index, dice)).collect())
}

fn endpoint(dice: &mut Dice<'_>, family: Family) -> SliceEndpoint {
    let number = dice.below(8);
    let bits = dice.byte();
    let (serving, terminating) = (bits & 7 != 7, bits & 0x38 == 0x38);
    let conditions = Conditions { ready: bits & 0x40 == 0 && serving && !terminating, serving, terminating };
    let zone = |number: u8| -> Arc<str> { format!("zone-{number}").into() };
    let hints = dice.pick(&[None, None, Some(0), Some(1)]).map(|it| {
        let nodes: Box<[Arc<str>]> = if dice.one_in(4) { [NODE.into()].into() } else { [].into() };
        Hints { zones: [zone(it)].into(), nodes }
    });
    let on = if number < 4 { NODE } else { "node-b" };
    let node = (!dice.one_in(6)).then(|| on.into());
    // An endpoint may be the node itself, as for a pod on the host's network.
    let address = if dice.one_in(12) { own_address(family, 0) } else { pod(family, number) };
    let weight = Weight::new(dice.pick(&[100, 100, 100, 0, 50, 300, 1000])).unwrap_or_default();
    let extras = Extras { hints: hints.unwrap_or_default(), hostname: None }.boxed();
    let place = Place { node, zone: None }.known().map(Arc::new);
    SliceEndpoint { address, conditions, weight, place, pod: None, extras }
}

pub(crate) fn snapshot(dice: &mut Dice<'_>) -> Snapshot {
    let ranges = [range("10.96.0.0/16"), range("fd00:10:96::/112")];
    let ranges = if dice.one_in(4) { [].into() } else { ranges.into() };
    let mut snapshot = Snapshot { node: Arc::new(node(dice)), service_ranges: ranges, ..Snapshot::default() };
    for _ in 0..=dice.below(4) {
        change(dice, &mut snapshot);
    }
    snapshot
}

/// Adds or replaces one Service with its slices, or removes it.
pub(crate) fn change(dice: &mut Dice<'_>, snapshot: &mut Snapshot) {
    let number = dice.below(SERVICES);
    if dice.one_in(8) {
        snapshot.services.remove(&name(number));
        return;
    }
    snapshot.services.insert(name(number), Arc::new(service(dice, number)));
    snapshot.slices.insert(name(number), Arc::new(slices(dice, number)));
}

pub(crate) fn settings(dice: &mut Dice<'_>) -> PlanConfig {
    let pods = vec![range("10.244.0.0/16"), range("fd00:10:244::/48")];
    let interface: Arc<str> = POD_INTERFACE.into();
    let detect_local = dice.pick(&[
        DetectLocal::ClusterRange(pods),
        DetectLocal::NodeRange,
        DetectLocal::InterfacePrefix("veth".into()),
        DetectLocal::BridgeInterface(interface),
    ]);
    let served = AddressSelector::Range(range("203.0.113.0/24"));
    let all = [vec![AddressSelector::Primary], Vec::new(), vec![served], vec![AddressSelector::All]];
    PlanConfig {
        detect_local,
        masquerade_all: dice.one_in(4),
        node_port_addresses: dice.pick(&all),
        loopback_node_ports: dice.one_in(4),
        allow_external_ips: !dice.one_in(8),
        ..PlanConfig::default()
    }
}

/// A packet that can reach the node: from a pod, the node itself, or outside, to a Service, the node, or elsewhere.
pub(crate) fn packet(dice: &mut Dice<'_>) -> Packet {
    let family = dice.pick(&Family::BOTH);
    let (source, interface) = match dice.below(3) {
        0 => (pod(family, dice.below(4)), Some(POD_INTERFACE)),
        1 => (own_address(family, dice.below(3)), None),
        _ => (outside(family, dice.below(4)), Some(OUTER_INTERFACE)),
    };
    let number = dice.byte();
    let (destination, port) = match number % 4 {
        0 => (cluster_ip(family, dice.below(SERVICES + 1)), 80 + u16::from(dice.below(4))),
        1 => (virtual_ip(family, dice.below(4)), 80 + u16::from(dice.below(4))),
        2 => (own_address(family, dice.below(3)), 30_000 + u16::from(dice.below(5))),
        _ => (pod(family, dice.below(8)), 8080),
    };
    let protocol = dice.pick(&Protocol::ALL);
    Packet {
        source,
        interface: interface.map(Into::into),
        destination,
        port,
        protocol,
        is_from_socket: interface != Some(OUTER_INTERFACE),
    }
}

/// A small cluster, the same each time.
pub(crate) fn example() -> Snapshot {
    let bytes: Vec<u8> = (0..=255).map(|number: u8| number.wrapping_mul(37).wrapping_add(11)).collect();
    snapshot(&mut Dice(&bytes))
}

pub(crate) fn config() -> PlanConfig {
    settings(&mut Dice(&[]))
}

/// Packets of every kind, the same each time.
pub(crate) fn packets() -> Vec<Packet> {
    let kinds = (0..3u8).flat_map(|source| (0..4u8).map(move |destination| [0, source, 0, destination, 0, 0, 0]));
    kinds.map(|bytes| packet(&mut Dice(&bytes))).collect()
}
