//! A small cluster: this node is node-a.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{
    Conditions, Extras, Family, Hints, Node, Protocol, Service, ServiceKind, ServiceName, ServicePort, Slice,
    SliceEndpoint, SlicePort, Slices, Snapshot,
};
use portolan_plan::{DetectLocal, Plan, PlanConfig, plan};

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) struct World(pub(crate) Snapshot);

impl World {
    pub(crate) fn new() -> Self {
        let node = Node {
            name: "node-a".into(),
            addresses: [address("192.168.50.1"), address("fd00:50::1")].into(),
            ..Node::default()
        };
        let ranges = ["10.96.0.0/16", "fd00:10:96::/112"].map(|text| text.parse().expect("a range"));
        Self(Snapshot { node: Arc::new(node), service_ranges: ranges.into(), ..Snapshot::default() })
    }

    pub(crate) fn service(&mut self, name: &str, change: impl FnOnce(&mut Service)) {
        let (namespace, name) = name.split_once('/').expect("a namespace");
        let mut service = Service::empty(ServiceName::new(namespace, name));
        change(&mut service);
        self.0.services.insert(service.name.clone(), Arc::new(service));
    }

    /// `pod address node`, with `!` before one that is not ready.
    pub(crate) fn endpoints(&mut self, service: &str, ports: &[(&str, u16)], endpoints: &[&str]) {
        let (namespace, name) = service.split_once('/').expect("a namespace");
        let name = ServiceName::new(namespace, name);
        let endpoints: Vec<SliceEndpoint> = endpoints.iter().map(|text| endpoint(text)).collect();
        let port =
            |(name, port): &(&str, u16)| SlicePort { name: (*name).into(), protocol: Protocol::Tcp, port: *port };
        let slices = Family::BOTH.into_iter().filter_map(|family| {
            let endpoints: Vec<_> = endpoints.iter().filter(|it| Family::of(it.address) == family).cloned().collect();
            let ports = ports.iter().map(port).collect();
            let name = format!("{family}").into();
            let slice = || Slice { name, family, is_for_names_only: false, ports, endpoints: endpoints.clone().into() };
            (!endpoints.is_empty()).then(|| Arc::new(slice()))
        });
        self.0.slices.insert(name, Arc::new(Slices(slices.collect())));
    }

    pub(crate) fn plan(&self) -> Plan {
        let pods = ["10.244.0.0/16", "fd00:10:244::/56"].map(|text| text.parse().expect("a range"));
        let config = PlanConfig { detect_local: DetectLocal::ClusterRange(pods.into()), ..PlanConfig::default() };
        plan(&self.0, &Plan::default(), &config)
    }
}

fn endpoint(text: &str) -> SliceEndpoint {
    let conditions = if text.starts_with('!') { Conditions::NOT_READY } else { Conditions::READY };
    let words: Vec<&str> = text.trim_start_matches('!').split(' ').collect();
    let hostname = words.get(3).map(|hostname| (*hostname).into());
    SliceEndpoint {
        conditions,
        pod: Some(words[0].into()).filter(|_| words[0] != "-"),
        extras: Extras { hints: Hints::default(), hostname }.boxed(),
        ..SliceEndpoint::on(words[2], address(words[1]))
    }
}

pub(crate) fn port(name: &str, port: u16, node_port: Option<u16>) -> ServicePort {
    ServicePort { name: name.into(), protocol: Protocol::Tcp, port, node_port }
}

/// Two Services named `web`, one of them with every kind of address, a headless one, DNS, and an ExternalName.
pub(crate) fn cluster() -> World {
    let mut world = World::new();
    world.service("default/web", |it| {
        it.kind = ServiceKind::LoadBalancer;
        it.cluster_ips = [address("10.96.0.80"), address("fd00:10:96::80")].into();
        it.load_balancer_ips = [address("198.51.100.10")].into();
        it.ports = [port("http", 80, Some(30080)), port("metrics", 9090, Some(30090))].into();
    });
    world.endpoints(
        "default/web",
        &[("http", 8080), ("metrics", 9091)],
        &["web-1 10.244.1.2 node-a", "web-2 10.244.2.2 node-b", "web-1 fd00:10:244:1::2 node-a"],
    );
    world.service("shop/web", |it| {
        it.cluster_ips = [address("10.96.0.81")].into();
        it.ports = [port("", 80, None)].into();
    });
    world.endpoints("shop/web", &[("", 8080)], &["cart-1 10.244.1.9 node-a", "web-1 10.244.2.9 node-b"]);
    world.service("kube-system/kube-dns", |it| {
        it.cluster_ips = [address("10.96.0.10")].into();
        let udp = ServicePort { protocol: Protocol::Udp, ..port("dns", 53, None) };
        it.ports = [udp, port("dns-tcp", 53, None)].into();
    });
    world.service("default/db", |it| it.ports = [port("sql", 5432, None)].into());
    world.endpoints("default/db", &[("sql", 5432)], &["db-0 10.244.2.4 node-b db-0", "!db-1 10.244.2.5 node-b db-1"]);
    world.service("default/single", |it| {
        it.kind = ServiceKind::NodePort;
        it.cluster_ips = [address("10.96.0.99")].into();
        it.ports = [port("", 99, Some(30099))].into();
    });
    world.service("default/legacy", |it| {
        it.kind = ServiceKind::ExternalName;
        it.external_name = Some("legacy.example.org".into());
    });
    world.0.nodes.insert("node-b".into(), [address("192.168.50.2"), address("fd00:50::2")].into());
    world
}
