//! Hooks at connect(2) beside rules alone, by turns, with 10,000 Services programmed: connections, exchanges on them, the time
//! of a start and of a change, and the memory of the maps.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dataplane::mode::{ActiveMode, Mode};
use portolan_dataplane::{ModeSettings, OptionValue, Trust, modes};
use portolan_kernel::bpf::spent;
use portolan_model::Snapshot;
use portolan_plan::{DetectLocal, Plan, PlanConfig, plan};
use portolan_testkit::{Lab, Protocol, topology};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::table::{microseconds, percentile};
use crate::{cluster, number_of, table};

const SERVICES: u32 = 10_000;
const ROUNDS: usize = 20;
const CONNECTIONS: usize = 800;
const EXCHANGES: usize = 3000;
/// Clients connect to so many Services by turns, so that no look-up is served from a warm cache alone.
const USED: u32 = 1000;
const CHANGES: u32 = 1000;
const TIMEOUT: Duration = Duration::from_secs(2);

/// The endpoint of the first, third, fifth... Service in use is on the same node, that of the others on another one.
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
    // Client and server take turns on one CPU: what is measured is the work, and not how the kernel spreads it.
    pin_to_one_cpu();
    let mut cases: Vec<Case> = ["nftables", "ebpf"].map(|name| Case::new(modes::named(name).expect("a mode"))).into();
    for (number, (title, endpoint)) in (0..).zip(ENDPOINTS) {
        connections(title, number, endpoint.parse().expect("an address"), &cases);
    }
    let changes: Vec<Changes> = cases.iter_mut().map(Case::change).collect();
    show_changes(&cases, &changes);
    println!("  maps of the hooks: {:.1} MB", map_memory() as f64 / 1e6);
}

impl Case {
    fn new(mode: &'static dyn Mode) -> Self {
        let lab = Lab::with_cgroup().expect("root is needed for the lab");
        let mut snapshot = cluster::facts(SERVICES, 3);
        let endpoints = ENDPOINTS.map(|(_, endpoint)| endpoint.parse::<SocketAddr>().expect("an address"));
        for endpoint in endpoints {
            lab.serve(endpoint, Protocol::Tcp).expect("the pod serves");
        }
        for number in 0..USED {
            let endpoint = endpoints[number as usize % endpoints.len()];
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
    fn change(&mut self) -> Changes {
        let mut changes = Changes::default();
        for round in 0..CHANGES {
            let number = USED + round * 7 % (SERVICES - USED);
            let address = cluster::endpoint_address(number, 3 + round % 4).into();
            let others = (0..2).map(|index| cluster::endpoint_address(number, index).into());
            self.snapshot.slices.insert(cluster::name(number), Arc::new(cluster::slices(others.chain([address]))));
            let begin = Instant::now();
            self.last = plan(&self.snapshot, &self.last, &self.config);
            let (active, last) = (&mut self.active, &self.last);
            let (before, after) = self.lab.host(topology::NODE).run(|| {
                let before = spent();
                active.sync(last, Trust::Memory).expect("the kernel takes it");
                (before, spent())
            });
            changes.all.push(begin.elapsed());
            changes.in_bpf.push(after.time - before.time);
            changes.calls += after.calls - before.calls;
        }
        changes.all.sort_unstable();
        changes.in_bpf.sort_unstable();
        changes
    }
}

/// The times of changes, sorted.
#[derive(Default)]
struct Changes {
    all: Vec<Duration>,
    /// In bpf(2) alone, beside the transaction of nf_tables.
    in_bpf: Vec<Duration>,
    /// How often bpf(2) was called.
    calls: u32,
}

/// The best median of all rounds, direct and through the VIP.
#[derive(Clone, Copy)]
struct Best {
    connect: [Duration; 2],
    exchange: [Duration; 2],
}

fn connections(title: &str, first: u32, endpoint: SocketAddr, cases: &[Case]) {
    let vips: Vec<SocketAddr> =
        (first..USED).step_by(ENDPOINTS.len()).map(|number| SocketAddr::new(cluster::cluster_ip(number), 80)).collect();
    let mut best = vec![Best { connect: [Duration::MAX; 2], exchange: [Duration::MAX; 2] }; cases.len()];
    let rounds = number_of("rounds", ROUNDS);
    for _ in 0..rounds {
        for (case, best) in cases.iter().zip(&mut best) {
            case.lab.host("pod-a1").run(|| {
                for (way, addresses) in [&[endpoint], &vips[..]].into_iter().enumerate() {
                    let times = addresses.iter().cycle().take(CONNECTIONS).map(|address| connect(*address)).collect();
                    best.connect[way] = best.connect[way].min(median(times));
                    best.exchange[way] = best.exchange[way].min(median(exchange(addresses[0])));
                }
            });
        }
    }
    show(&format!("{title}, best median of {rounds} rounds"), cases, &best);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    percentile(&times, 0.5)
}

/// The time of connect(2) alone. The server's line is read after it, so that its queue of connections never fills up.
fn connect(address: SocketAddr) -> Duration {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket can be opened");
    let start = Instant::now();
    rustix::net::connect(&socket, &address).expect("the pod answers");
    let elapsed = start.elapsed();
    let mut connection = TcpStream::from(socket);
    connection.read_exact(&mut [0]).expect("the server's line");
    // Reset, so that no port stays in TIME_WAIT: the search for a free one would be measured, too.
    set_socket_linger(&connection, Some(Duration::ZERO)).expect("an option of sockets");
    elapsed
}

fn exchange(address: SocketAddr) -> Vec<Duration> {
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT).expect("the pod answers");
    connection.set_nodelay(true).expect("an option of TCP");
    let mut octet = [0];
    while octet != *b"\n" {
        connection.read_exact(&mut octet).expect("the server's line");
    }
    let mut once = || {
        let start = Instant::now();
        connection.write_all(b"x").and_then(|()| connection.read_exact(&mut octet)).expect("an echo");
        start.elapsed()
    };
    (0..EXCHANGES).map(|_| once()).collect()
}

fn show(title: &str, cases: &[Case], best: &[Best]) {
    let row = |(case, best): (&Case, &Best)| {
        let times = [best.connect, best.exchange].concat();
        [case.name.to_owned()].into_iter().chain(times.into_iter().map(microseconds)).collect()
    };
    let rows: Vec<Vec<String>> = cases.iter().zip(best).map(row).collect();
    table::print(
        &format!("10,000 Services, pod to pod, {title}"),
        &["", "connect direct", "through the VIP", "exchange direct", "through the VIP"],
        &rows,
    );
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!(
        "  connect, hooks / rules: {:.3} (target: at most 0.88); exchange, hooks / direct: {:.3} (target: at most 1.02)",
        ratio(best[1].connect[1], best[0].connect[1]),
        ratio(best[1].exchange[1], best[1].exchange[0]),
    );
}

fn show_changes(cases: &[Case], changes: &[Changes]) {
    let row = |(case, changes): (&Case, &Changes)| {
        let [median, slow] = [0.5, 0.99].map(|share| microseconds(percentile(&changes.all, share)));
        let [in_bpf, slow_in_bpf] = [0.5, 0.99].map(|share| microseconds(percentile(&changes.in_bpf, share)));
        let calls = format!("{:.1}", f64::from(changes.calls) / changes.all.len() as f64);
        let start = format!("{:.0} ms", case.start.as_secs_f64() * 1e3);
        vec![case.name.into(), start, median, slow, calls, in_bpf, slow_in_bpf]
    };
    let rows: Vec<Vec<String>> = cases.iter().zip(changes).map(row).collect();
    table::print(
        "10,000 Services: first sync, and one endpoint replaced (plan, render, apply)",
        &["", "first sync", "change p50", "p99", "calls of bpf(2)", "p50", "p99"],
        &rows,
    );
    println!("  target: at most 20 µs in bpf(2)");
}

/// Of all maps that this process has open.
fn map_memory() -> u64 {
    let infos = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let texts = infos.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let maps = texts.filter(|text| text.contains("map_type:"));
    maps.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse::<u64>().ok()))
        .sum()
}

/// This thread and those that it starts.
fn pin_to_one_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus).expect("the first CPU is there");
}
