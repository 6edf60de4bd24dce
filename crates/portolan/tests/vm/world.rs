//! A node of the lab in ipvs mode, with Services that the test changes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use portolan::host;
use portolan_dataplane::ipvs::{Ipvs, IpvsKernel, IpvsSettings, prepare};
use portolan_dataplane::tables::Variant;
use portolan_dataplane::{Reconciler, Trust};
use portolan_model::{
    Family, Node, Observation, Observed, Protocol, Service, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort,
    Slices, Snapshot,
};
use portolan_plan::{AddressSelector, DetectLocal, Limits, Plan, PlanConfig, plan};
use portolan_testkit::{Answer, Lab, LongConnection, Protocol as Wire, Source, topology};

use crate::support::node_addresses;

const ANSWER_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct World<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) reconciler: Reconciler<Ipvs, IpvsKernel>,
    pub(crate) plan: Plan,
    snapshot: Snapshot,
    config: PlanConfig,
}

impl<'a> World<'a> {
    /// Without Services: objects of an earlier test are gone when this returns.
    pub(crate) fn new(lab: &'a Lab, scheduler: &str) -> Self {
        let node = lab.host(topology::NODE);
        node.run(|| prepare(&IpvsSettings::default())).expect("the VM can be prepared");
        let kernel = node.run(|| IpvsKernel::open(Variant::Nft)).expect("the VM has IPVS");
        let mut snapshot =
            Snapshot { node: Arc::new(Node { name: "node-a".into(), ..Node::default() }), ..Snapshot::default() };
        host::add_addresses(&mut snapshot, &node_addresses(), None);
        let config = PlanConfig {
            detect_local: DetectLocal::ClusterRange(vec!["10.244.0.0/16".parse().expect("a range")]),
            node_port_addresses: vec![AddressSelector::Range("192.168.0.0/16".parse().expect("a range"))],
            limits: Limits { virtual_servers: true, ..Limits::default() },
            ..PlanConfig::default()
        };
        let reconciler = Reconciler::new(Ipvs::new(14, scheduler), kernel);
        let mut world = Self { lab, reconciler, plan: Plan::default(), snapshot, config };
        world.sync();
        world
    }

    /// Adds or replaces a Service at port 80 with these endpoints, each at port 8080.
    pub(crate) fn put(&mut self, service: Service, endpoints: &[&str]) {
        let protocol = service.ports[0].protocol;
        let of_node = |address: &str| if address.starts_with("10.244.1.") { "node-a" } else { "node-b" };
        let endpoint = |address: &&str| SliceEndpoint::on(of_node(address), address.parse().expect("an address"));
        let slice = Slice {
            name: service.name.to_string().into(),
            family: Family::V4,
            is_for_names_only: false,
            ports: [SlicePort { name: "".into(), protocol, port: 8080 }].into(),
            endpoints: endpoints.iter().map(endpoint).collect(),
        };
        self.snapshot.slices.insert(service.name.clone(), Arc::new(Slices([Arc::new(slice)].into())));
        self.snapshot.services.insert(service.name.clone(), Arc::new(service));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.snapshot.services.remove(&ServiceName::new("default", name));
    }

    /// What is observed of one endpoint of a Service.
    pub(crate) fn observe(&mut self, name: &str, endpoint: &str, observation: Observation) {
        let observed = Observed::new([(socket(&format!("{endpoint}:8080")), observation)]);
        self.snapshot.observed.insert(ServiceName::new("default", name), Arc::new(observed));
    }

    /// The next sync has no Services.
    pub(crate) fn clear(&mut self) {
        self.snapshot.services = Default::default();
    }

    pub(crate) fn planned(&mut self) -> Plan {
        self.plan = plan(&self.snapshot, &self.plan, &self.config);
        self.plan.clone()
    }

    pub(crate) fn sync(&mut self) {
        self.planned();
        let Self { lab, reconciler, plan, .. } = self;
        lab.host(topology::NODE).run(|| reconciler.sync(plan, Trust::Memory)).expect("the kernel accepts it");
    }

    /// What a tool prints on the node.
    pub(crate) fn shown(&self, words: &[&str]) -> String {
        self.lab.host(topology::NODE).command(words).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A connection that stays open, from an address outside the cluster.
    pub(crate) fn open_from(&self, client: u8, to: &str) -> LongConnection {
        let to = socket(to);
        let source = Source::parse(&format!("192.0.2.{client}"), to.ip()).expect("an address");
        let opened = self.lab.open_connection(&source, to, Wire::Tcp, ANSWER_WITHIN);
        opened.unwrap_or_else(|error| panic!("192.0.2.{client} -> {to}: {error}"))
    }

    /// The answers to so many clients, each with a connection that ends before the next starts.
    pub(crate) fn answers(&self, clients: impl Iterator<Item = u8>, to: &str) -> Vec<IpAddr> {
        clients.map(|client| endpoint(self.open_from(client, to).answer())).collect()
    }

    pub(crate) fn serve(&self, addresses: &[&str]) {
        for address in addresses {
            self.lab.serve(socket(&format!("{address}:8080")), Wire::Tcp).expect("the lab has it");
        }
    }
}

pub(crate) fn endpoint(answer: &Answer) -> IpAddr {
    answer.endpoint.ip()
}

/// Weight and active connections of an endpoint, as `ipvsadm -ln` lists it. Nothing if it is no destination of the server.
pub(crate) fn weights(world: &World<'_>, server: &str, endpoint: &str) -> Vec<(u32, u32)> {
    let listing = world.shown(&["ipvsadm", "-ln", "-t", server]);
    let lines = listing.lines().filter(|line| line.contains(&format!("-> {endpoint}:8080")));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[3].parse().expect("a weight"), words[4].parse().expect("a count"))
        })
        .collect()
}

pub(crate) fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address with a port")
}

pub(crate) fn service(name: &str, address: &str, node_port: Option<u16>) -> Service {
    Service {
        cluster_ips: [address.parse().expect("an address")].into(),
        ports: [ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port }].into(),
        ..Service::empty(ServiceName::new("default", name))
    }
}
