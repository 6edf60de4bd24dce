//! Hooks at connect(2) beside rules alone, by turns, with 10,000 Services programmed: connections, exchanges on them, the time
//! of a start and of a change, and the memory of the maps.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dataplane::mode::{ActiveMode, Mode};
use portolan_dataplane::{ModeSettings, OptionValue, Trust, modes};
use portolan_model::Snapshot;
use portolan_plan::{DetectLocal, Plan, PlanConfig, plan};
use portolan_testkit::{Lab, Protocol, topology};

use crate::table::{microseconds, percentile};
use crate::{cluster, table};

const SERVICES: u32 = 10_000;
const ROUNDS: usize = 20;
const CONNECTIONS: usize = 400;
const EXCHANGES: usize = 2000;
const CHANGES: u32 = 1000;
const TIMEOUT: Duration = Duration::from_secs(2);

/// The endpoint of the first Service is on the same node, that of the second on another one.
const ENDPOINTS: [(&str, &str); 2] = [("one node", "10.244.1.3:8080"), ("two nodes", "10.244.2.3:8080")];

/// One mode in a lab of its own.
struct Case {
    name: &'static str,
    lab: Lab,
    active: Box<dyn ActiveMode>,
    config: PlanConfig,
    snapshot: Snapshot,
    last: Plan,
    start: Duration,
}

pub(crate) fn run() {
    let mut cases: Vec<Case> = ["nftables", "ebpf"].map(|name| Case::new(modes::named(name).expect("a mode"))).into();
    for (number, (title, endpoint)) in (0..).zip(ENDPOINTS) {
        connections(title, number, endpoint.parse().expect("an address"), &cases);
    }
    let changes: Vec<Vec<Duration>> = cases.iter_mut().map(Case::change).collect();
    show_changes(&cases, &changes);
    println!("  maps of the hooks: {:.1} MB", map_memory() as f64 / 1e6);
}

impl Case {
    fn new(mode: &'static dyn Mode) -> Self {
        let lab = Lab::with_cgroup().expect("root is needed for the lab");
        let mut snapshot = cluster::facts(SERVICES, 3);
        for (number, (_, endpoint)) in (0..).zip(ENDPOINTS) {
            let endpoint: SocketAddr = endpoint.parse().expect("an address");
            lab.serve(endpoint, Protocol::Tcp).expect("the pod serves");
            snapshot.slices.insert(cluster::name(number), Arc::new(cluster::slices([endpoint.ip()].into_iter())));
        }
        let ranges = vec!["10.244.0.0/16".parse().expect("a range")];
        let detect_local = DetectLocal::ClusterRange(ranges);
        let config = PlanConfig { detect_local, limits: mode.limits(), ..PlanConfig::default() };
        let mut settings = ModeSettings::default();
        let cgroup = lab.cgroup().expect("the lab has a cgroup").display().to_string();
        settings.options.set("ebpf-cgroup", OptionValue::Text(cgroup));
        let mut active = lab.host(topology::NODE).run(|| mode.open(&settings)).expect("the mode can be opened");
        let last = plan(&snapshot, &Plan::default(), &config);
        let begin = Instant::now();
        lab.host(topology::NODE).run(|| active.sync(&last, Trust::Memory)).expect("the kernel takes it");
        Self { name: mode.name(), lab, active, config, snapshot, last, start: begin.elapsed() }
    }

    /// One endpoint of one Service is replaced: plan and sync.
    fn change(&mut self) -> Vec<Duration> {
        let mut times = Vec::new();
        for round in 0..CHANGES {
            let number = 100 + round * 7 % (SERVICES - 100);
            let address = cluster::endpoint_address(number, 3 + round % 4).into();
            let others = (0..2).map(|index| cluster::endpoint_address(number, index).into());
            self.snapshot.slices.insert(cluster::name(number), Arc::new(cluster::slices(others.chain([address]))));
            let begin = Instant::now();
            self.last = plan(&self.snapshot, &self.last, &self.config);
            let (active, last) = (&mut self.active, &self.last);
            self.lab.host(topology::NODE).run(|| active.sync(last, Trust::Memory)).expect("the kernel takes it");
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        times
    }
}

/// What one lab measures.
#[derive(Default)]
struct Times {
    connect: [Vec<Duration>; 2],
    exchange: [Vec<Duration>; 2],
}

fn connections(title: &str, number: u32, endpoint: SocketAddr, cases: &[Case]) {
    let vip = SocketAddr::new(cluster::cluster_ip(number), 80);
    let mut times: Vec<Times> = cases.iter().map(|_| Times::default()).collect();
    for _ in 0..ROUNDS {
        for (case, times) in cases.iter().zip(&mut times) {
            case.lab.host("pod-a1").run(|| {
                for (way, address) in [endpoint, vip].into_iter().enumerate() {
                    times.connect[way].extend((0..CONNECTIONS).map(|_| connect(address)));
                    exchange(address, &mut times.exchange[way]);
                }
            });
        }
    }
    show(title, cases, &mut times);
}

fn connect(address: SocketAddr) -> Duration {
    let start = Instant::now();
    let connection = TcpStream::connect_timeout(&address, TIMEOUT).expect("the pod answers");
    let elapsed = start.elapsed();
    drop(connection);
    elapsed
}

fn exchange(address: SocketAddr, times: &mut Vec<Duration>) {
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT).expect("the pod answers");
    connection.set_nodelay(true).expect("an option of TCP");
    let mut octet = [0];
    while octet != *b"\n" {
        connection.read_exact(&mut octet).expect("the server's line");
    }
    for _ in 0..EXCHANGES {
        let start = Instant::now();
        connection.write_all(b"x").and_then(|()| connection.read_exact(&mut octet)).expect("an echo");
        times.push(start.elapsed());
    }
}

fn show(title: &str, cases: &[Case], times: &mut [Times]) {
    let mut rows = Vec::new();
    let mut medians = Vec::new();
    for (case, times) in cases.iter().zip(times) {
        let median = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            percentile(times, 0.5)
        };
        let [direct, through] = &mut times.connect;
        let [direct_exchange, exchange] = &mut times.exchange;
        let row = [median(direct), median(through), median(direct_exchange), median(exchange)];
        rows.push([case.name.into()].into_iter().chain(row.map(microseconds)).collect());
        medians.push(row);
    }
    table::print(
        &format!("10,000 Services, pod to pod, {title}, medians"),
        &["", "connect direct", "through the VIP", "exchange direct", "through the VIP"],
        &rows,
    );
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!(
        "  connect, hooks / rules: {:.3} (target: at most 0.88); exchange, hooks / direct: {:.3} (target: at most 1.02)",
        ratio(medians[1][1], medians[0][1]),
        ratio(medians[1][3], medians[1][2]),
    );
}

fn show_changes(cases: &[Case], changes: &[Vec<Duration>]) {
    let row = |(case, times): (&Case, &Vec<Duration>)| {
        let (median, slow) = (percentile(times, 0.5), percentile(times, 0.99));
        vec![
            case.name.into(),
            format!("{:.0} ms", case.start.as_secs_f64() * 1e3),
            microseconds(median),
            microseconds(slow),
        ]
    };
    let rows: Vec<Vec<String>> = cases.iter().zip(changes).map(row).collect();
    table::print(
        "10,000 Services: first sync, and one endpoint replaced (plan, render, apply; with hooks, a grace period of 1 ms)",
        &["", "first sync", "change p50", "p99"],
        &rows,
    );
}

/// Of all maps that this process has open.
fn map_memory() -> u64 {
    let infos = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let texts = infos.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let maps = texts.filter(|text| text.contains("map_type:"));
    maps.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse::<u64>().ok()))
        .sum()
}
