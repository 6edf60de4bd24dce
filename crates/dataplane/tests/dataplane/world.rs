//! A small cluster with every kind of object, and helpers to inspect it.

use std::sync::Arc;

use portolan_model::{
    Algorithm, Balancing, Family, HashOf, Node, Protocol, Service, ServiceKind, ServiceName, ServicePort, Slice,
    SliceEndpoint, SlicePort, Slices, Snapshot, TrafficPolicy,
};
use portolan_plan::{DetectLocal, PlanConfig};

pub(crate) fn service(name: &str, cluster_ips: &[&str]) -> Service {
    let mut service = Service::empty(ServiceName::new("default", name));
    service.cluster_ips = cluster_ips.iter().map(|address| address.parse().expect("an address")).collect();
    let port = |protocol, node_port| ServicePort { name: "".into(), protocol, port: 80, node_port };
    service.ports = [port(Protocol::Tcp, Some(30080)), port(Protocol::Udp, None), port(Protocol::Sctp, None)].into();
    service
}

pub(crate) fn slices(name: &str, family: Family, addresses: &[(&str, &str)]) -> Slices {
    let endpoints =
        addresses.iter().map(|(address, node)| SliceEndpoint::on(node, address.parse().expect("an address")));
    let port = |protocol| SlicePort { name: "".into(), protocol, port: 8080 };
    let ports = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(port).into();
    Slices(
        [Arc::new(Slice {
            name: name.into(),
            family,
            is_for_names_only: false,
            ports,
            endpoints: endpoints.collect(),
        })]
        .into(),
    )
}

/// Services that between them use every kind of chain and element.
pub(crate) fn everything() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let address = |text: &str| text.parse().expect("an address");
    snapshot.node = Arc::new(Node {
        name: "node-a".into(),
        addresses: [address("192.168.50.1"), address("fd00:50::1")].into(),
        ..Node::default()
    });
    snapshot.service_ranges = ["10.96.0.0/16", "fd00:10:96::/112"].map(|range| range.parse().expect("a range")).into();
    let mut add = |service: Service, slices: Option<Slices>| {
        if let Some(slices) = slices {
            snapshot.slices.insert(service.name.clone(), Arc::new(slices));
        }
        snapshot.services.insert(service.name.clone(), Arc::new(service));
    };
    let pods = [("10.244.1.2", "node-a"), ("10.244.2.2", "node-b"), ("10.244.2.3", "node-b")];
    let pods6 = [("fd00:10:244:1::2", "node-a"), ("fd00:10:244:2::2", "node-b")];
    add(service("plain", &["10.96.0.10", "fd00:10:96::10"]), Some(slices("plain", Family::V4, &pods)));
    add(service("plain6", &["fd00:10:96::11"]), Some(slices("plain6", Family::V6, &pods6)));
    add(service("empty", &["10.96.0.12"]), None);
    let mut sticky = service("sticky", &["10.96.0.13"]);
    sticky.affinity_seconds = Some(10_800);
    sticky.ports[0].node_port = Some(30081);
    add(sticky, Some(slices("sticky", Family::V4, &pods)));
    let mut sticky6 = service("sticky6", &["fd00:10:96::13"]);
    sticky6.affinity_seconds = Some(90);
    add(sticky6, Some(slices("sticky6", Family::V6, &pods6)));
    for (name, ip, lb, range) in [
        ("balanced", "10.96.0.14", "198.51.100.14", "203.0.113.0/24"),
        ("balanced6", "fd00:10:96::14", "2001:db8:51::14", "2001:db8:113::/64"),
    ] {
        let mut balanced = service(name, &[ip]);
        balanced.kind = ServiceKind::LoadBalancer;
        balanced.load_balancer_ips = [address(lb)].into();
        balanced.source_ranges = [range.parse().expect("a range")].into();
        balanced.external_policy = TrafficPolicy::Local;
        balanced.ports[0].node_port = Some(30082);
        let pods: &[(&str, &str)] = if name.ends_with('6') { &pods6 } else { &pods };
        let family = if name.ends_with('6') { Family::V6 } else { Family::V4 };
        add(balanced, Some(slices(name, family, pods)));
    }
    snapshot
}

/// The same with a Service for each algorithm, and what is hashed, in each family.
pub(crate) fn everything_balanced() -> Snapshot {
    let mut snapshot = everything();
    let mut add = |name: String, address: String, node_port: u16, balancing: &Balancing, slices: Slices| {
        let mut service = service(&name, &[&address]);
        service.ports[0].node_port = Some(node_port);
        service.affinity_seconds = balancing.hash.map(|_| 60);
        service.balancing = Some(Arc::new(balancing.clone()));
        snapshot.slices.insert(service.name.clone(), Arc::new(slices));
        snapshot.services.insert(service.name.clone(), Arc::new(service));
    };
    let pods = [("10.244.1.2", "node-a"), ("10.244.2.2", "node-b"), ("10.244.2.3", "node-b")];
    let pods6 = [("fd00:10:244:1::2", "node-a"), ("fd00:10:244:2::2", "node-b")];
    for (number, algorithm) in (20..).zip(Algorithm::ALL) {
        for (hash, number) in [(None, number), (Some(HashOf::ClientAndPort), number + 10)] {
            let table_size = "251".parse().ok();
            let balancing = Balancing { algorithm: Some(algorithm), hash, table_size, ..Balancing::default() };
            let name = |version: u8| format!("{}-{number}-v{version}", algorithm.name());
            let of_four = slices("four", Family::V4, &pods);
            add(name(4), format!("10.96.0.{number}"), 30_100 + number, &balancing, of_four);
            let of_six = slices("six", Family::V6, &pods6);
            add(name(6), format!("fd00:10:96::{number}"), 30_200 + number, &balancing, of_six);
        }
    }
    snapshot
}

/// Services of these names, with ClusterIPs from 10.96.1.1 on and two endpoints each.
pub(crate) fn named(names: &[&str]) -> Snapshot {
    let mut snapshot = Snapshot { node: everything().node, ..Snapshot::default() };
    for (number, name) in (1..).zip(names) {
        let service = service(name, &[&format!("10.96.1.{number}")]);
        let slices = slices("s", Family::V4, &[("10.244.1.2", "node-a"), ("10.244.2.2", "node-b")]);
        snapshot.slices.insert(service.name.clone(), Arc::new(slices));
        snapshot.services.insert(service.name.clone(), Arc::new(service));
    }
    snapshot
}

pub(crate) fn configurations() -> Vec<PlanConfig> {
    let with = |detect_local| PlanConfig { detect_local, ..PlanConfig::default() };
    let ranges = ["10.244.0.0/17", "fd00:10:244::/48"].map(|range| range.parse().expect("a range"));
    vec![
        with(DetectLocal::ClusterRange(ranges.into())),
        with(DetectLocal::BridgeInterface("cbr0".into())),
        with(DetectLocal::InterfacePrefix("veth".into())),
        PlanConfig { masquerade_all: true, node_port_addresses: Vec::new(), ..PlanConfig::default() },
    ]
}
