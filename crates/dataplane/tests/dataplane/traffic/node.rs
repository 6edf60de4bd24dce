//! A lab whose node has counters, and one-line helpers to create Services.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::traffic::{ServiceTraffic, Traffic, TrafficSample, Usage};
use portolan_dataplane::{Reconciler, SyncReport, Trust, verify};
use portolan_kernel::nftables::Count;
use portolan_model::{
    Family, Node as NodeFacts, Protocol, Service, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort, Slices,
    Snapshot,
};
use portolan_plan::{DetectLocal, Plan, PlanConfig, PortKey, plan};
use portolan_testkit::{Lab, LongConnection, Protocol as WireProtocol, Source, topology};

use crate::poll::until;

/// Long, because a loaded machine must not fail a test that is only slow.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

pub(crate) struct Node {
    pub(crate) lab: Arc<Lab>,
    snapshot: Snapshot,
    plan: Plan,
    reconciler: Reconciler<Nftables, NftablesKernel>,
    traffic: Traffic,
    kept: RefCell<Vec<LongConnection>>,
}

impl Node {
    pub(crate) fn new(mode: Nftables) -> Self {
        let lab = Arc::new(Lab::new().expect("root is needed for the lab"));
        let reconciler = open(&lab, mode);
        let address = |text: &str| text.parse().expect("an address");
        let addresses = ["192.168.50.1", "fd00:50::1"].map(address).into();
        let node = NodeFacts { name: "node-a".into(), addresses, ..NodeFacts::default() };
        let service_ranges = ["10.96.0.0/16", "fd00:10:96::/112"].map(|range| range.parse().expect("a range")).into();
        let snapshot = Snapshot { node: Arc::new(node), service_ranges, ..Snapshot::default() };
        Self { lab, snapshot, plan: Plan::default(), reconciler, traffic: Traffic::new(), kept: RefCell::default() }
    }

    /// A Service with port 80 on this address, whose endpoints serve.
    pub(crate) fn put(&mut self, name: &str, vip: &str, protocol: Protocol, endpoints: &[&str]) -> SyncReport {
        let mut service = Service::empty(ServiceName::new("default", name));
        service.cluster_ips = [vip.parse().expect("an address")].into();
        service.ports = [ServicePort { name: "".into(), protocol, port: 80, node_port: None }].into();
        let endpoints: Vec<SocketAddr> = endpoints.iter().map(|it| it.parse().expect("an address")).collect();
        endpoints.iter().for_each(|it| self.lab.serve(*it, wire(protocol)).expect("it serves"));
        let slices = slices(protocol, &endpoints);
        self.snapshot.slices.insert(service.name.clone(), Arc::new(slices));
        self.snapshot.services.insert(service.name.clone(), Arc::new(service));
        self.sync()
    }

    pub(crate) fn sync(&mut self) -> SyncReport {
        let ranges = ["10.244.0.0/16", "fd00:10:244::/48"].map(|range| range.parse().expect("a range"));
        let config = PlanConfig { detect_local: DetectLocal::ClusterRange(ranges.into()), ..PlanConfig::default() };
        self.plan = plan(&self.snapshot, &self.plan, &config);
        self.reconciler.sync(&self.plan, Trust::Memory).expect("the kernel accepts it")
    }

    /// As after a restart of the daemon.
    pub(crate) fn restart(&mut self, mode: Nftables) -> SyncReport {
        self.reconciler = open(&self.lab, mode);
        self.traffic = Traffic::new();
        self.sync()
    }

    pub(crate) fn is_as_planned(&mut self, mode: &Nftables) -> bool {
        verify(mode, self.reconciler.kernel_mut(), &self.plan).expect("the kernel can be read").is_empty()
    }

    pub(crate) fn kernel(&mut self) -> &mut NftablesKernel {
        self.reconciler.kernel_mut()
    }

    pub(crate) fn read(&mut self) -> TrafficSample {
        self.traffic.read(self.reconciler.kernel_mut(), &self.plan).expect("the counters can be read").clone()
    }

    /// Reads until the sample matches: the last packet of an exchange may still be in flight.
    pub(crate) fn read_until(&mut self, what: &str, is_right: impl Fn(&TrafficSample) -> bool) -> TrafficSample {
        let mut sample = TrafficSample::default();
        until(what, || {
            sample = self.read();
            is_right(&sample)
        });
        sample
    }

    pub(crate) fn connect(&self, from: &str, to: &str, protocol: Protocol) -> LongConnection {
        let to: SocketAddr = to.parse().expect("an address");
        let source = Source::parse(from, to.ip()).expect("a host of the lab");
        self.lab.open_connection(&source, to, wire(protocol), ANSWER_WITHIN).expect("an endpoint answers")
    }

    /// Keeps the socket open: another flow with its port would be the same flow for connection tracking.
    pub(crate) fn keep(&self, flow: LongConnection) {
        self.kept.borrow_mut().push(flow);
    }

    pub(crate) fn command(&self, words: &[&str]) -> String {
        self.lab.host(topology::NODE).command(words).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn open(lab: &Lab, mode: Nftables) -> Reconciler<Nftables, NftablesKernel> {
    Reconciler::new(mode, lab.host(topology::NODE).run(NftablesKernel::open).expect("root"))
}

fn slices(protocol: Protocol, endpoints: &[SocketAddr]) -> Slices {
    let Some(first) = endpoints.first() else { return Slices::default() };
    let endpoint = |it: &SocketAddr| SliceEndpoint::on("node-a", it.ip());
    let ports = [SlicePort { name: "".into(), protocol, port: first.port() }].into();
    let endpoints = endpoints.iter().map(endpoint).collect();
    Slices(
        [Arc::new(Slice {
            name: "one".into(),
            family: Family::of(first.ip()),
            is_for_names_only: false,
            ports,
            endpoints,
        })]
        .into(),
    )
}

fn wire(protocol: Protocol) -> WireProtocol {
    match protocol {
        Protocol::Tcp => WireProtocol::Tcp,
        Protocol::Udp => WireProtocol::Udp,
        Protocol::Sctp => WireProtocol::Sctp,
    }
}

/// The traffic of a Service that has only one port.
pub(crate) fn of(sample: &TrafficSample, service: &str) -> ServiceTraffic {
    let is_it = |key: &&PortKey| *key.name.service.name == *service;
    let key = sample.services.keys().find(is_it);
    key.map_or_else(ServiceTraffic::default, |key| sample.services[key].clone())
}

pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Usage>) -> Usage {
    let add = |one: Count, other: Count| Count { packets: one.packets + other.packets, bytes: one.bytes + other.bytes };
    all.fold(Usage::default(), |sum, it| Usage {
        connections: sum.connections + it.connections,
        requests: add(sum.requests, it.requests),
        replies: add(sum.replies, it.replies),
    })
}
