//! Random histories of a cluster, for property tests of the plan and of what is made of it.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{
    Algorithm, Balancing, Conditions, Extras, Family, HashOf, Hints, Node, Place, Protocol, Service, ServiceKind,
    ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort, Slices, Snapshot, TrafficPolicy, Weight,
};
use portolan_plan::{AddressSelector, DetectLocal, PlanConfig};

pub(crate) mod random;

use random::Dice;

/// One thing that happens to the cluster. Names and addresses come from small ranges, so that they collide.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    PutService(u8, ServiceDraft),
    DeleteService(u8),
    PutSlices(u8, Vec<Vec<EndpointDraft>>),
    DeleteSlices(u8),
    MoveNode(Option<u8>),
    AddAddress(u8),
    RemoveAddress(u8),
}

#[derive(Clone, Debug)]
pub(crate) struct ServiceDraft {
    dual_stack: bool,
    kind: ServiceKind,
    ports: Vec<(u8, Protocol, Option<u8>)>,
    external: Option<u8>,
    ingress: Option<u8>,
    sources: Vec<u8>,
    internal: TrafficPolicy,
    outside: TrafficPolicy,
    affinity: Option<u32>,
    algorithm: Option<Algorithm>,
    hash: Option<HashOf>,
}

#[derive(Clone, Debug)]
pub(crate) struct EndpointDraft {
    number: u8,
    v6: bool,
    conditions: (bool, bool, bool),
    node: Option<u8>,
    zone: Option<u8>,
}

fn service_draft(dice: &mut Dice) -> ServiceDraft {
    const KINDS: [ServiceKind; 3] = [ServiceKind::ClusterIp, ServiceKind::NodePort, ServiceKind::LoadBalancer];
    const POLICIES: [TrafficPolicy; 2] = [TrafficPolicy::Cluster, TrafficPolicy::Local];
    ServiceDraft {
        dual_stack: dice.chance(50),
        kind: dice.pick(&KINDS),
        ports: dice.several(1, 3, |dice| (dice.below(3), dice.pick(&Protocol::ALL), dice.maybe_below(4))),
        external: dice.maybe_below(3),
        ingress: dice.maybe_below(3),
        sources: dice.several(0, 3, |dice| dice.below(4)),
        internal: dice.pick(&POLICIES),
        outside: dice.pick(&POLICIES),
        affinity: dice.pick(&[None, None, None, Some(60), Some(10_800)]),
        algorithm: algorithm(dice),
        hash: dice.pick(&[None, Some(HashOf::ClientAndPort)]),
    }
}

/// Half of the Services have none, and few a table.
fn algorithm(dice: &mut Dice) -> Option<Algorithm> {
    const ALGORITHMS: [Algorithm; 3] = [Algorithm::RoundRobin, Algorithm::SourceHash, Algorithm::LeastConnections];
    match dice.below(10) {
        0..5 => None,
        5 => Some(Algorithm::Maglev),
        _ => Some(dice.pick(&ALGORITHMS)),
    }
}

fn endpoint_draft(dice: &mut Dice) -> EndpointDraft {
    EndpointDraft {
        number: dice.below(12),
        v6: dice.chance(30),
        conditions: (dice.chance(80), dice.chance(90), dice.chance(20)),
        node: dice.maybe_below(2),
        zone: dice.maybe_below(2),
    }
}

fn happening(dice: &mut Dice) -> Happening {
    match dice.below(15) {
        0..4 => Happening::PutService(dice.below(6), service_draft(dice)),
        4 => Happening::DeleteService(dice.below(6)),
        5..11 => Happening::PutSlices(dice.below(6), dice.several(0, 3, |dice| dice.several(0, 6, endpoint_draft))),
        11 => Happening::DeleteSlices(dice.below(6)),
        12 => Happening::MoveNode(dice.maybe_below(2)),
        13 => Happening::AddAddress(dice.below(3)),
        _ => Happening::RemoveAddress(dice.below(3)),
    }
}

fn history(dice: &mut Dice) -> Vec<Happening> {
    dice.several(1, 12, happening)
}

fn service_name(number: u8) -> ServiceName {
    ServiceName::new("default", &format!("service-{number}"))
}

fn address(text: String) -> IpAddr {
    text.parse().expect("a well formed address")
}

fn make_service(number: u8, draft: &ServiceDraft) -> Service {
    let mut service = Service::empty(service_name(number));
    service.kind = draft.kind;
    service.cluster_ips = match draft.dual_stack {
        true => [address(format!("10.96.0.{}", number + 1)), address(format!("fd00:10:96::{}", number + 1))].into(),
        false => [address(format!("10.96.0.{}", number + 1))].into(),
    };
    let mut ports: Vec<ServicePort> = Vec::new();
    for (port, protocol, node_port) in &draft.ports {
        let node_port = node_port.filter(|_| draft.kind != ServiceKind::ClusterIp).map(|it| 30_000 + u16::from(it));
        let name = format!("p{port}").into();
        let port = ServicePort { name, protocol: *protocol, port: 80 + u16::from(*port), node_port };
        let repeats = |other: &ServicePort| {
            other.protocol == port.protocol && (other.port == port.port || other.node_port == port.node_port)
        };
        if !ports.iter().any(repeats) {
            ports.push(port);
        }
    }
    service.ports = ports.into();
    service.external_ips = draft.external.iter().map(|it| address(format!("198.51.100.{it}"))).collect();
    service.load_balancer_ips = draft.ingress.iter().map(|it| address(format!("198.51.100.{it}"))).collect();
    service.source_ranges =
        draft.sources.iter().map(|it| format!("192.0.2.{}/28", it * 16).parse().expect("a range")).collect();
    service.internal_policy = draft.internal;
    service.external_policy = draft.outside;
    service.affinity_seconds = draft.affinity;
    let table_size = "251".parse().ok();
    let balancing = Balancing { algorithm: draft.algorithm, hash: draft.hash, table_size, ..Balancing::default() };
    service.balancing = Some(Arc::new(balancing));
    // Only some Services that may have one do, so that health checks come and go while the Service stays.
    service.health_check_node_port = draft.ingress.map(|_| 31_000 + u16::from(number));
    service
}

fn make_slices(number: u8, drafts: &[Vec<EndpointDraft>]) -> Slices {
    let slice = |(index, (family, endpoints)): (usize, (Family, Vec<SliceEndpoint>))| {
        let port = |port: u8, protocol| SlicePort { name: format!("p{port}").into(), protocol, port: 8080 };
        let ports = (0..3u8).flat_map(|it| Protocol::ALL.map(|protocol| port(it, protocol))).collect();
        Arc::new(Slice {
            name: format!("s{number}-{index}").into(),
            family,
            is_for_names_only: false,
            ports,
            endpoints: endpoints.into(),
        })
    };
    let families = drafts.iter().flat_map(|endpoints| {
        [(Family::V4, false), (Family::V6, true)]
            .map(|(family, v6)| (family, endpoints.iter().filter(|it| it.v6 == v6).map(make_endpoint).collect()))
    });
    Slices(families.enumerate().map(slice).collect())
}

fn make_endpoint(draft: &EndpointDraft) -> SliceEndpoint {
    let (ready, serving, terminating) = draft.conditions;
    let zone = |number| -> Arc<str> { format!("zone-{number}").into() };
    let hints = draft.zone.map(|it| Hints { zones: [zone(it)].into(), nodes: [].into() });
    let node = draft.node.map(|number| format!("node-{number}").into());
    SliceEndpoint {
        address: address(match draft.v6 {
            true => format!("fd00:10:244::{}", draft.number + 2),
            false => format!("10.244.0.{}", draft.number + 2),
        }),
        conditions: Conditions { ready: ready && !terminating, serving, terminating },
        place: Place { node, zone: None }.known().map(Arc::new),
        pod: None,
        extras: Extras { hints: hints.unwrap_or_default(), hostname: None }.boxed(),
        // Some have another weight, and some none.
        weight: Weight::new([100, 100, 100, 250, 0][usize::from(draft.number % 5)]).unwrap_or_default(),
    }
}

pub(crate) fn happen(snapshot: &mut Snapshot, happening: &Happening) {
    match happening {
        Happening::PutService(number, draft) => {
            snapshot.services.insert(service_name(*number), Arc::new(make_service(*number, draft)));
        }
        Happening::DeleteService(number) => _ = snapshot.services.remove(&service_name(*number)),
        Happening::PutSlices(number, drafts) => {
            snapshot.slices.insert(service_name(*number), Arc::new(make_slices(*number, drafts)));
        }
        Happening::DeleteSlices(number) => _ = snapshot.slices.remove(&service_name(*number)),
        Happening::MoveNode(zone) => {
            snapshot.node = node(*zone, &snapshot.node.interface_addresses);
        }
        Happening::AddAddress(number) => set_address(snapshot, *number, true),
        Happening::RemoveAddress(number) => set_address(snapshot, *number, false),
    }
}

fn set_address(snapshot: &mut Snapshot, number: u8, is_there: bool) {
    let wanted = address(format!("192.168.60.{}", number + 1));
    let mut addresses: Vec<IpAddr> = snapshot.node.interface_addresses.to_vec();
    addresses.retain(|address| *address != wanted);
    addresses.extend(is_there.then_some(wanted));
    snapshot.node = Arc::new(Node { interface_addresses: addresses.into(), ..(*snapshot.node).clone() });
}

fn node(zone: Option<u8>, interface_addresses: &[IpAddr]) -> Arc<Node> {
    Arc::new(Node {
        name: "node-0".into(),
        zone: zone.map(|number| format!("zone-{number}").into()),
        addresses: [address("192.168.50.1".into())].into(),
        interface_addresses: interface_addresses.into(),
        ..Node::default()
    })
}

pub(crate) fn beginning() -> Snapshot {
    let ranges = ["10.96.0.0/16", "fd00:10:96::/112"].map(|range| range.parse().expect("a range"));
    Snapshot { node: node(None, &[]), service_ranges: ranges.into(), ..Snapshot::default() }
}

pub(crate) fn config() -> PlanConfig {
    let pods = ["10.244.0.0/16", "fd00:10:244::/48"].map(|range| range.parse().expect("a range"));
    let served = AddressSelector::Range("192.168.0.0/16".parse().expect("a range"));
    PlanConfig {
        detect_local: DetectLocal::ClusterRange(pods.into()),
        node_port_addresses: vec![served],
        ..PlanConfig::default()
    }
}
