//! Stale UDP flows among thousands of others.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dataplane::fake::FakeKernel;
use portolan_dataplane::nft::Nftables;
use portolan_dataplane::{Changes, FlowWorker, Reconciler, Suspects, SyncReport, Trust, forget_stale_flows};
use portolan_kernel::conntrack::{Conntrack, Flow};
use portolan_model::{Family, Node, Protocol, Service, ServiceName, Snapshot};
use portolan_plan::{AddressSelector, Plan, PlanConfig, plan};

use crate::world::{service, slices};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// FLOWS=100000 measures.
fn count() -> u32 {
    std::env::var("FLOWS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn flow(client: u32, to: SocketAddr, leads_to: SocketAddr) -> Flow {
    let client = SocketAddr::new(Ipv4Addr::from(0x0b00_0000 + client).into(), 1000);
    Flow {
        protocol: UDP,
        original_source: client,
        original_destination: to,
        reply_source: leads_to,
        reply_destination: client,
    }
}

struct World {
    snapshot: Snapshot,
    config: PlanConfig,
    plan: Plan,
    reconciler: Reconciler<Nftables, FakeKernel<Nftables>>,
    conntrack: Conntrack,
}

impl World {
    fn new() -> Self {
        portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
        let node =
            Node { name: "node-a".into(), addresses: [address("192.168.50.1:0").ip()].into(), ..Node::default() };
        Self {
            snapshot: Snapshot { node: Arc::new(node), ..Snapshot::default() },
            config: PlanConfig { node_port_addresses: vec![AddressSelector::Primary], ..PlanConfig::default() },
            plan: Plan::default(),
            reconciler: Reconciler::new(Nftables::new(14), FakeKernel::new()),
            conntrack: Conntrack::open().unwrap(),
        }
    }

    fn put(&mut self, name: &str, vip: &str, endpoints: &[String]) {
        let pods: Vec<(&str, &str)> = endpoints.iter().map(|it| (it.as_str(), "node-b")).collect();
        let mut service: Service = service(name, &[vip]);
        let udp = service.ports.iter_mut().find(|port| port.protocol == Protocol::Udp).unwrap();
        udp.node_port = Some(30_053);
        let name = ServiceName::new("default", name);
        self.snapshot.slices.insert(name.clone(), Arc::new(slices("one", Family::V4, &pods)));
        self.snapshot.services.insert(name, Arc::new(service));
    }

    /// Syncs, and deletes what is stale. Returns the number.
    fn sync(&mut self) -> usize {
        self.plan = plan(&self.snapshot, &self.plan, &self.config);
        let report = self.reconciler.sync(&self.plan, Trust::Memory).unwrap();
        let mut suspects = Suspects::default();
        if !suspects.add(&report.changes, &self.plan) {
            return 0;
        }
        let begin = Instant::now();
        let count = forget_stale_flows(&mut self.conntrack, Family::V4, &suspects, &self.plan).unwrap();
        println!("{count} stale flows deleted in {:?}", begin.elapsed());
        count
    }

    fn insert(&mut self, flows: &[Flow]) {
        flows.iter().for_each(|flow| self.conntrack.insert(flow, Duration::from_secs(600)).unwrap());
    }

    fn flows(&mut self) -> BTreeSet<Flow> {
        self.conntrack.flows(Family::V4, UDP, |_| true).unwrap().into_iter().collect()
    }
}

fn endpoints(of: u8) -> Vec<String> {
    (0..100).map(|last| format!("10.244.{of}.{last}")).collect()
}

fn endpoint(of: u8, number: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 244, of, (number % 100) as u8]), 8080)
}

/// A Service whose hundred endpoints are all replaced, among flows of another one and of no Service at all.
#[test]
fn one_walk_finds_all_stale_flows_and_no_other() {
    let mut world = World::new();
    world.put("web", "10.96.0.1", &endpoints(2));
    let vip = address("10.96.0.1:80");
    let elsewhere = address("192.0.2.1:53");
    world.sync();
    let stale: Vec<Flow> = (0..count() / 10).map(|it| flow(it, vip, endpoint(2, it))).collect();
    let foreign: Vec<Flow> = (count() / 10..count()).map(|it| flow(it, elsewhere, elsewhere)).collect();
    world.insert(&stale);
    world.insert(&foreign);
    assert_eq!(world.sync(), 0);
    world.put("web", "10.96.0.1", &endpoints(3));
    assert_eq!(world.sync(), stale.len());
    assert_eq!(world.flows(), foreign.into_iter().collect());
}

/// Flows to an address that begins or ceases to serve node ports, and to Services and endpoints that go.
#[test]
fn flows_follow_every_change_of_what_is_served_where() {
    let mut world = World::new();
    let (here, there) = (address("192.168.50.1:30053"), address("192.168.51.1:30053"));
    world.put("web", "10.96.0.1", &endpoints(2));
    world.sync();
    let served = flow(1, here, endpoint(2, 1));
    let refused = flow(2, there, there);
    let other_port = flow(3, address("192.168.51.1:53"), address("192.168.51.1:53"));
    world.insert(&[served, refused, other_port]);

    let move_to = |world: &mut World, address: SocketAddr| {
        let node = Node { addresses: [address.ip()].into(), ..(*world.snapshot.node).clone() };
        world.snapshot.node = Arc::new(node);
    };
    move_to(&mut world, there);
    assert_eq!(world.sync(), 2, "the flow at the old address and the untranslated one at the new address");
    assert_eq!(world.flows(), [other_port].into());

    let served = flow(4, there, endpoint(2, 1));
    world.insert(&[served]);
    world.put("web", "10.96.0.1", &[]);
    assert_eq!(world.sync(), 1, "a node port without endpoints");

    world.put("web", "10.96.0.1", &endpoints(2));
    world.sync();
    let (by_vip, by_port) = (flow(5, address("10.96.0.1:80"), endpoint(2, 1)), flow(6, there, endpoint(2, 2)));
    world.insert(&[by_vip, by_port]);
    world.snapshot.services.clear();
    assert_eq!(world.sync(), 2, "a Service that is gone");
    assert_eq!(world.flows(), [other_port].into());
}

/// Rules were missing, and connections to a ClusterIP and to a node port were tracked without translation.
#[test]
fn a_repair_deletes_untranslated_connections_without_a_reply() {
    let mut world = World::new();
    world.put("web", "10.96.0.1", &endpoints(2));
    world.sync();
    let tcp = |client, to: &str, leads_to| Flow { protocol: TCP, ..flow(client, address(to), leads_to) };
    let untranslated = |client, to: &str| tcp(client, to, address(to));
    let stale = [untranslated(1, "10.96.0.1:80"), untranslated(2, "192.168.50.1:30080")];
    let others =
        [tcp(3, "10.96.0.1:80", endpoint(2, 1)), untranslated(4, "10.96.0.9:80"), untranslated(5, "192.168.50.1:22")];
    world.insert(&stale);
    world.insert(&others);
    insert_replied("11.0.0.6", "10.96.0.1", "80");
    let all: BTreeSet<Flow> = stale.into_iter().chain(others).chain([untranslated(6, "10.96.0.1:80")]).collect();
    let left = |world: &mut World| world.conntrack.flows(Family::V4, TCP, |_| true).unwrap().into_iter().collect();
    assert_eq!(all, left(&mut world));

    let mut suspects = Suspects::default();
    let forget = |world: &mut World, suspects: &Suspects| {
        forget_stale_flows(&mut world.conntrack, Family::V4, suspects, &world.plan).unwrap()
    };
    assert_eq!(forget(&mut world, &suspects), 0, "an ordinary change leaves TCP alone");
    suspects.add_untranslated();
    assert_eq!(forget(&mut world, &suspects), 2);
    let kept: BTreeSet<Flow> = all.into_iter().filter(|flow| !stale.contains(flow)).collect();
    assert_eq!(kept, left(&mut world));
}

/// An established connection, by the kernel's own tool.
fn insert_replied(client: &str, to: &str, port: &str) {
    let words = ["-I", "-p", "tcp", "-s", client, "-d", to, "--sport", "1000", "--dport", port, "-t", "600"];
    let output = Command::new("conntrack")
        .args(words)
        .args(["--state", "ESTABLISHED", "-u", "SEEN_REPLY,ASSURED"])
        .output()
        .expect("the program conntrack is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A packet that the old rules translated may be tracked after the walk.
#[test]
fn a_flow_that_is_tracked_just_after_the_walk_is_found() {
    let mut world = World::new();
    world.put("web", "10.96.0.1", &endpoints(3));
    world.sync();
    let (sender, walks) = std::sync::mpsc::channel();
    let note = move |family, _: Duration, count: usize| _ = sender.send((family, count));
    let worker = FlowWorker::start(Box::new(note)).unwrap();
    let stale = flow(1, address("10.96.0.1:80"), endpoint(2, 1));
    world.insert(&[stale]);
    worker.follow(&SyncReport { changes: Changes::Unknown, ..SyncReport::default() }, &world.plan);
    let walk = || walks.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!((walk(), walk()), ((Family::V4, 1), (Family::V6, 0)), "counted by family");
    world.insert(&[stale]);
    assert_eq!((walk(), walk()), ((Family::V4, 1), (Family::V6, 0)));
    assert_eq!(world.flows(), BTreeSet::new());
}
