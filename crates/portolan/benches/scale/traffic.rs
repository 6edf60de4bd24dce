//! The cost of traffic counters: connections and exchanges through a VIP with and without them, by turns, and reading
//! the counters after every endpoint of every Service has had a client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::traffic::Traffic;
use portolan_dataplane::{Reconciler, Trust};
use portolan_model::{Service, ServicePort, Slice, SlicePort, Slices, Snapshot};
use portolan_plan::{DetectLocal, Plan, PlanConfig, plan};
use portolan_testkit::{Lab, Protocol, topology};

use crate::table::{microseconds, percentile};
use crate::{cluster, table};

const SERVICES: u32 = 10_000;
const ROUNDS: usize = 40;
const CONNECTIONS: usize = 100;
const EXCHANGES: usize = 500;
const POD: &str = "10.244.1.3:8080";

pub(crate) fn run() {
    packets();
    reading();
}

fn packets() {
    let mut worlds = [("off", Nftables::new(14).without_traffic_counters()), ("on", Nftables::new(14))]
        .map(|(name, mode)| World::new(name, mode));
    for _ in 0..ROUNDS {
        worlds.iter_mut().for_each(World::measure);
    }
    let rows: Vec<Vec<String>> = worlds.iter_mut().map(World::row).collect();
    let heading =
        ["counting", "connect direct", "through the VIP", "ratio", "exchange direct", "through the VIP", "ratio"];
    table::print("Counting traffic, 10,000 Services, medians", &heading, &rows);
}

/// A node for each variant, so that both are measured at the same time.
struct World {
    name: &'static str,
    lab: Lab,
    /// Connecting and exchanging, directly and through the VIP.
    times: [Vec<Duration>; 4],
}

impl World {
    fn new(name: &'static str, mode: Nftables) -> Self {
        let lab = Lab::new().expect("root is needed for the lab");
        let pod: SocketAddr = POD.parse().expect("an address");
        lab.serve(pod, Protocol::Tcp).expect("the pod serves");
        let mut snapshot = cluster::facts(SERVICES, 3);
        snapshot.slices.insert(cluster::name(0), Arc::new(cluster::slices([pod.ip()].into_iter())));
        program(&lab, mode, &decide(&snapshot));
        Self { name, lab, times: Default::default() }
    }

    fn measure(&mut self) {
        let targets = [POD.parse().expect("an address"), SocketAddr::new(cluster::cluster_ip(0), 80)];
        let times = self.lab.host("pod-a1").run(|| {
            let mut times: [Vec<Duration>; 4] = Default::default();
            for _ in 0..CONNECTIONS {
                targets.iter().enumerate().for_each(|(way, target)| times[way].push(connect(*target)));
            }
            for (way, target) in targets.iter().enumerate() {
                times[2 + way] = exchange(*target);
            }
            times
        });
        self.times.iter_mut().zip(times).for_each(|(all, more)| all.extend(more));
    }

    fn row(&mut self) -> Vec<String> {
        self.times.iter_mut().for_each(|times| times.sort_unstable());
        let [connect, connect_vip, exchange, exchange_vip] = [0, 1, 2, 3].map(|it| percentile(&self.times[it], 0.5));
        let ratio = |vip: Duration, direct: Duration| format!("{:.3}", vip.as_secs_f64() / direct.as_secs_f64());
        vec![
            self.name.into(),
            microseconds(connect),
            microseconds(connect_vip),
            ratio(connect_vip, connect),
            microseconds(exchange),
            microseconds(exchange_vip),
            ratio(exchange_vip, exchange),
        ]
    }
}

fn connect(address: SocketAddr) -> Duration {
    let start = Instant::now();
    let connection = TcpStream::connect(address).expect("the pod answers");
    let elapsed = start.elapsed();
    drop(connection);
    elapsed
}

/// A small request and its reply, repeated on one connection.
fn exchange(address: SocketAddr) -> Vec<Duration> {
    let mut connection = TcpStream::connect(address).expect("the pod answers");
    connection.set_nodelay(true).expect("a socket has this option");
    let mut buffer = [0; 64];
    let greeting = connection.read(&mut [0; 256]).expect("the pod greets");
    assert!(greeting > 0);
    let mut once = || {
        let start = Instant::now();
        connection.write_all(&buffer).expect("the pod reads");
        connection.read_exact(&mut buffer).expect("the pod echoes");
        start.elapsed()
    };
    (0..EXCHANGES).map(|_| once()).collect()
}

fn reading() {
    let mut rows = Vec::new();
    for used in [100, 1000, 10_000] {
        let lab = Lab::new().expect("root is needed for the lab");
        let plan = decide(&as_udp(cluster::facts(SERVICES, 3)));
        let mut reconciler = program(&lab, Nftables::new(14), &plan);
        lab.host(topology::NODE).command(&["ip", "route", "add", "11.0.0.0/8", "via", "10.244.1.3"]).expect("a route");
        lab.host("pod-a1").run(|| send_to_all(used));
        let mut traffic = Traffic::new();
        let mut timed = || {
            let start = Instant::now();
            let pairs = traffic.read(reconciler.kernel_mut(), &plan).expect("the counters can be read").pairs;
            (start.elapsed(), pairs)
        };
        let (first, pairs) = timed();
        let mut again: Vec<Duration> = (0..10).map(|_| timed().0).collect();
        again.sort_unstable();
        rows.push(vec![pairs.to_string(), microseconds(first), microseconds(percentile(&again, 0.5))]);
    }
    let heading = ["endpoints with traffic", "first reading", "again"];
    table::print("Reading the counters, 10,000 Services", &heading, &rows);
}

fn decide(snapshot: &Snapshot) -> Plan {
    let ranges = vec!["10.244.0.0/16".parse().expect("a range")];
    let config = PlanConfig { detect_local: DetectLocal::ClusterRange(ranges), ..PlanConfig::default() };
    plan(snapshot, &Plan::default(), &config)
}

fn program(lab: &Lab, mode: Nftables, plan: &Plan) -> Reconciler<Nftables, NftablesKernel> {
    let kernel = lab.host(topology::NODE).run(NftablesKernel::open).expect("root");
    let mut reconciler = Reconciler::new(mode, kernel);
    reconciler.sync(plan, Trust::Memory).expect("the kernel takes it");
    reconciler
}

/// The same Services with UDP, where one datagram without a reply is a client.
fn as_udp(mut snapshot: Snapshot) -> Snapshot {
    let udp = portolan_model::Protocol::Udp;
    for (_, service) in &snapshot.services.clone() {
        let ports = service.ports.iter().map(|port| ServicePort { protocol: udp, ..port.clone() }).collect();
        snapshot.services.insert(service.name.clone(), Arc::new(Service { ports, ..(**service).clone() }));
    }
    for (name, slices) in &snapshot.slices.clone() {
        let with_udp = |slice: &Arc<Slice>| {
            let ports = slice.ports.iter().map(|port| SlicePort { protocol: udp, ..port.clone() }).collect();
            Arc::new(Slice { ports, ..(**slice).clone() })
        };
        snapshot.slices.insert(name.clone(), Arc::new(Slices(slices.0.iter().map(with_udp).collect())));
    }
    snapshot
}

/// Several clients of each Service, so that nearly every endpoint gets one.
fn send_to_all(services: u32) {
    for _ in 0..8 {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        for number in 0..services {
            // An error is about an earlier datagram.
            _ = socket.send_to(b"hello", SocketAddr::new(cluster::cluster_ip(number), 80));
        }
    }
}
