//! Session affinity of nftables mode, with real packets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::{Reconciler, SyncReport, Trust};
use portolan_kernel::nftables::Nftables as Handle;
use portolan_model::{
    Family, Node as NodeFacts, Protocol, Service, ServiceKind, ServiceName, ServicePort, Slice, SliceEndpoint,
    SlicePort, Slices, Snapshot, TrafficPolicy,
};
use portolan_plan::{Plan, PlanConfig, plan};
use portolan_testkit::{Lab, Outcome, Protocol as WireProtocol, Source, topology};

use crate::poll::until;

const ANSWER_WITHIN: Duration = Duration::from_secs(20);
const LONG: u32 = 10_800;
/// The limit of one map of clients.
const CLIENTS: u32 = 65_535;

const LOCAL: [&str; 3] = ["10.244.1.2", "10.244.1.3", "10.244.1.4"];
const ALL: [&str; 5] = ["10.244.1.2", "10.244.1.3", "10.244.1.4", "10.244.2.2", "10.244.2.3"];

const CLUSTER_IP: &str = "10.96.0.80:80";
const LOAD_BALANCER: &str = "198.51.100.10:80";
const EXTERNAL_IP: &str = "198.51.100.20:80";
const NODE_PORT: &str = "192.168.50.1:30080";

struct Stage {
    lab: Arc<Lab>,
    snapshot: Snapshot,
    plan: Plan,
    reconciler: Reconciler<Nftables, NftablesKernel>,
}

impl Stage {
    fn new() -> Self {
        let lab = Arc::new(Lab::new().expect("root is needed for the lab"));
        ALL.iter().for_each(|it| lab.serve(SocketAddr::new(it.parse().unwrap(), 8080), WireProtocol::Tcp).unwrap());
        let reconciler = reconciler(&lab);
        let addresses = ["192.168.50.1", "fd00:50::1"].map(|it| it.parse().unwrap()).into();
        let node = NodeFacts { name: "node-a".into(), addresses, ..NodeFacts::default() };
        let snapshot = Snapshot { node: Arc::new(node), ..Snapshot::default() };
        Self { lab, snapshot, plan: Plan::default(), reconciler }
    }

    fn put(&mut self, service: Service, endpoints: &[&str]) -> SyncReport {
        self.snapshot.slices.insert(service.name.clone(), Arc::new(slices(endpoints)));
        self.snapshot.services.insert(service.name.clone(), Arc::new(service));
        self.plan = plan(&self.snapshot, &self.plan, &PlanConfig::default());
        self.reconciler.sync(&self.plan, Trust::Memory).expect("the kernel accepts it")
    }

    /// The endpoint that serves one new connection.
    fn endpoint(&self, client: Ipv4Addr, to: &str) -> SocketAddr {
        let to: SocketAddr = to.parse().unwrap();
        let source = Source::parse(&client.to_string(), to.ip()).unwrap();
        match self.lab.probe(&source, to, WireProtocol::Tcp, ANSWER_WITHIN) {
            Outcome::Answered { endpoint, .. } => endpoint,
            other => panic!("{client} to {to}: {other:?}"),
        }
    }

    fn endpoints(&self, clients: u8, to: &str) -> BTreeMap<Ipv4Addr, SocketAddr> {
        (1..=clients).map(|last| Ipv4Addr::new(192, 0, 2, last)).map(|it| (it, self.endpoint(it, to))).collect()
    }

    fn generation(&self) -> u32 {
        self.lab.host(topology::NODE).run(|| Handle::open().unwrap().generation().unwrap())
    }
}

fn reconciler(lab: &Lab) -> Reconciler<Nftables, NftablesKernel> {
    Reconciler::new(Nftables::new(14), lab.host(topology::NODE).run(NftablesKernel::open).expect("root"))
}

/// With every kind of frontend.
fn sticky(name: &str, last: u8, seconds: u32) -> Service {
    let mut service = Service::empty(ServiceName::new("default", name));
    service.kind = ServiceKind::LoadBalancer;
    service.affinity_seconds = Some(seconds);
    service.cluster_ips = [Ipv4Addr::new(10, 96, 0, last).into()].into();
    service.load_balancer_ips = [Ipv4Addr::new(198, 51, 100, last - 70).into()].into();
    service.external_ips = [Ipv4Addr::new(198, 51, 100, last - 60).into()].into();
    let node_port = Some(30_000 + u16::from(last));
    service.ports = [ServicePort { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port }].into();
    service
}

fn slices(endpoints: &[&str]) -> Slices {
    let endpoint =
        |it: &&str| SliceEndpoint::on(if LOCAL.contains(it) { "node-a" } else { "node-b" }, it.parse().unwrap());
    let ports = [SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }].into();
    let endpoints = endpoints.iter().map(endpoint).collect();
    Slices(
        [Arc::new(Slice { name: "one".into(), family: Family::V4, is_for_names_only: false, ports, endpoints })].into(),
    )
}

#[test]
fn a_client_has_one_endpoint_through_every_frontend() {
    let mut stage = Stage::new();
    stage.put(sticky("web", 80, LONG), &ALL[..4]);
    let before = stage.endpoints(40, CLUSTER_IP);
    assert!(before.values().collect::<HashSet<_>>().len() > 1, "{before:?}");
    stage.put(sticky("web", 80, LONG), &ALL);
    for frontend in [LOAD_BALANCER, NODE_PORT, EXTERNAL_IP, CLUSTER_IP] {
        assert_eq!(stage.endpoints(40, frontend), before, "through {frontend}");
    }
}

/// A client that comes again after its time is over is like a new one.
#[test]
fn affinity_ends_with_its_timeout() {
    let mut stage = Stage::new();
    stage.put(sticky("web", 80, 1), &ALL[..4]);
    let client = Ipv4Addr::new(192, 0, 2, 1);
    let first = stage.endpoint(client, CLUSTER_IP);
    let comes_again = |_| {
        let map = ["nft", "list", "map", "ip", "portolan", "affinity/default/web/tcp/http"];
        let clients = || stage.lab.host(topology::NODE).command(&map).unwrap();
        until("the entry has expired", || !clients().contains("192.0.2.1"));
        stage.endpoint(client, CLUSTER_IP) != first
    };
    // The chance that all of twelve draws of four endpoints are the same is 1 in 16 million.
    assert!((0..12).any(comes_again), "the client always gets {first}");
}

/// Spoofed sources fill the map of the Service that they attack, and no other.
#[test]
fn a_flood_at_one_service_leaves_the_others_their_affinity() {
    let mut stage = Stage::new();
    stage.put(sticky("attacked", 80, LONG), &ALL[..4]);
    stage.put(sticky("other", 81, LONG), &ALL[..4]);
    let sources = (0..CLIENTS + 5_000).map(|number| Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 1)) + number));
    stage.lab.flood("client", CLUSTER_IP.parse().unwrap(), sources).unwrap();
    let before = stage.endpoints(30, "10.96.0.81:80");
    assert!(before.values().collect::<HashSet<_>>().len() > 1, "{before:?}");
    stage.put(sticky("other", 81, LONG), &ALL);
    assert_eq!(stage.endpoints(30, "198.51.100.11:80"), before);

    // An endpoint of the attacked Service goes, and with it some 16,000 clients.
    let generation = stage.generation();
    stage.put(sticky("attacked", 80, LONG), &ALL[1..4]);
    let commits = stage.generation().wrapping_sub(generation);
    assert!(commits < 40, "{commits} transactions");
    let after = stage.endpoints(20, CLUSTER_IP);
    assert!(after.values().all(|it| it.ip().to_string() != ALL[0]), "{after:?}");
}

/// Each pool has its own clients: what the cluster pool has drawn must not lead outside traffic to another node.
#[test]
fn affinity_respects_the_local_policy() {
    let mut stage = Stage::new();
    let web = || Service { external_policy: TrafficPolicy::Local, ..sticky("web", 80, LONG) };
    stage.put(web(), &ALL);
    let is_local = |it: &SocketAddr| LOCAL.contains(&it.ip().to_string().as_str());
    let cluster = stage.endpoints(20, CLUSTER_IP);
    assert!(cluster.values().any(|it| !is_local(it)), "{cluster:?}");
    let outside = stage.endpoints(20, LOAD_BALANCER);
    assert!(outside.values().all(is_local), "{outside:?}");
    for (client, endpoint) in cluster.iter().filter(|(_, it)| is_local(it)) {
        assert_eq!(outside[client], *endpoint, "a local endpoint serves the client through both frontends");
    }
    assert_eq!(stage.endpoints(20, LOAD_BALANCER), outside);
    assert_eq!(stage.endpoints(20, CLUSTER_IP), cluster);
}

/// A table of an earlier version, with one map for all Services, is updated under its clients.
#[test]
fn clients_of_an_earlier_version_keep_their_endpoints() {
    let mut stage = Stage::new();
    let client = |last: usize| Ipv4Addr::new(192, 0, 2, last as u8);
    let entry = |(last, endpoint): (usize, &&str)| {
        format!("{} . 10.96.0.80 . tcp . 80 timeout 1h expires 30m : {endpoint} . 8080", client(last))
    };
    let entries: Vec<String> = (1..).zip(ALL.iter()).map(entry).collect();
    let table = format!(
        "table ip portolan {{\nmap affinity {{\ntype ipv4_addr . ipv4_addr . inet_proto . inet_service : ipv4_addr . \
         inet_service\nsize 65535\nflags dynamic,timeout\nelements = {{ {} }}\n}}\n}}\n",
        entries.join(", ")
    );
    let node = stage.lab.host(topology::NODE);
    node.command_with_input(&["nft", "-f", "-"], &table).unwrap();
    stage.put(sticky("web", 80, LONG), &ALL);
    for (last, endpoint) in (1..).zip(ALL) {
        for frontend in [CLUSTER_IP, NODE_PORT] {
            assert_eq!(stage.endpoint(client(last), frontend).ip().to_string(), endpoint);
        }
    }
    let sets = stage.lab.host(topology::NODE).command(&["nft", "list", "sets", "ip"]).unwrap();
    assert!(!sets.contains("map affinity {"), "{sets}");
}
