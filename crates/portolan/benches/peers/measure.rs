//! Measures one proxy, from its start to its cleanup.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portolan_testkit::cluster::Program;
use rustix::process::Signal;

use crate::contender::Contender;
use crate::network::{Times, percentile, wait_for};
use crate::stage::{ENDPOINT_PORT, Stage, endpoint_address, fresh_address, vip};

/// The slowest start so far took four minutes.
pub(crate) const START_WITHIN: Duration = Duration::from_secs(900);
const CHANGE_WITHIN: Duration = Duration::from_secs(120);
/// A start leaves work behind, such as returning memory and a first check, that is not part of later measurements.
pub(crate) const SETTLE: Duration = Duration::from_secs(3);
/// Stops after this many changes, or after this much time.
const CHANGES: u32 = 200;
const CHANGING_FOR: Duration = Duration::from_secs(45);
const BETWEEN_CHANGES: Duration = Duration::from_millis(20);
/// After ipvs mode, kube-proxy first deletes chains that others still refer to, and fails.
const CLEANUPS: u32 = 3;
const CONNECTIONS: u32 = 10_000;
const TURN: u32 = 500;

pub(crate) struct Result {
    pub(crate) contender: Contender,
    pub(crate) services: u32,
    pub(crate) endpoints: u32,
    pub(crate) start: Duration,
    pub(crate) start_cpu: Duration,
    pub(crate) memory: u64,
    pub(crate) peak_memory: u64,
    /// Memory of the kernel for the BPF maps of the process.
    pub(crate) maps: u64,
    pub(crate) replaced: Changes,
    pub(crate) scaled: Changes,
    pub(crate) through: Times,
    pub(crate) direct: Times,
}

#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) times: Vec<Duration>,
    /// The API server's response time for each.
    writes: Vec<Duration>,
    /// CPU time of the proxy for one change.
    pub(crate) cpu: Duration,
}

impl Changes {
    pub(crate) fn time(&self, share: f64) -> Duration {
        percentile(&self.times, share)
    }

    pub(crate) fn write(&self, share: f64) -> Duration {
        percentile(&self.writes, share)
    }
}

pub(crate) fn run(stage: &Stage, contender: Contender) -> Result {
    let begin = Instant::now();
    let program = start(stage, contender);
    let last = vip(stage.services - 1);
    let answered = stage.client_host().run(|| wait_for(last, START_WITHIN, |_| true));
    let start = answered.expect("the last Service answers in time") - begin;
    std::thread::sleep(SETTLE);
    let start_cpu = cpu_of(program.id());
    let (memory, peak_memory) = (memory_of(program.id(), "VmRSS:"), memory_of(program.id(), "VmHWM:"));
    let maps = map_memory_of(program.id());
    let replaced = change_endpoints(stage, program.id(), Change::Replaced);
    let scaled = change_endpoints(stage, program.id(), Change::Scaled);
    let (through, direct) = connect_by_turns(stage);
    stop(stage, contender, program);
    let Stage { services, endpoints, .. } = *stage;
    Result {
        contender,
        services,
        endpoints,
        start,
        start_cpu,
        memory,
        peak_memory,
        maps,
        replaced,
        scaled,
        through,
        direct,
    }
}

pub(crate) fn start(stage: &Stage, contender: Contender) -> Program {
    Program::start(stage.node(), &contender.name(), contender.command(stage), &log(stage)).expect("the program starts")
}

fn log(stage: &Stage) -> PathBuf {
    stage.folder().join("contender.log")
}

/// What the program that was started last has written.
pub(crate) fn log_of(stage: &Stage) -> String {
    std::fs::read_to_string(log(stage)).unwrap_or_default()
}

pub(crate) fn stop(stage: &Stage, contender: Contender, program: Program) {
    program.end(Signal::TERM);
    let clean_up = || stage.node().run(|| contender.clean_up().output()).expect("the program starts");
    let is_clean = (0..CLEANUPS).any(|_| clean_up().status.success());
    assert!(is_clean, "cleaning up failed: {}", String::from_utf8_lossy(&clean_up().stderr));
    stage.node().command(&["conntrack", "--flush"]).expect("conntrack works");
}

/// A change of the endpoints of a Service.
#[derive(Clone, Copy)]
enum Change {
    /// All are replaced, as at the end of a rolling update.
    Replaced,
    /// All but a new one are removed.
    Scaled,
}

/// A client waits for an answer from a new endpoint; then the change is reverted. The CPU time is that of one change of
/// the two.
fn change_endpoints(stage: &Stage, program: u32, change: Change) -> Changes {
    let cpu = cpu_of(program);
    let begin = Instant::now();
    let mut changes = Changes::default();
    while (changes.times.len() as u32) < CHANGES && begin.elapsed() < CHANGING_FOR {
        let turn = changes.times.len() as u32;
        let number = (turn * 7919 + 13) % stage.services;
        let (time, write) = change_one(stage, number, turn, change);
        changes.times.push(time);
        changes.writes.push(write);
        put_back(stage, number);
    }
    changes.cpu = (cpu_of(program) - cpu) / (2 * changes.times.len().max(1) as u32);
    changes
}

/// From sending the change to the API server until a packet reaches a new endpoint, and until the change is accepted.
fn change_one(stage: &Stage, number: u32, turn: u32, change: Change) -> (Duration, Duration) {
    let count = match change {
        Change::Replaced => stage.endpoints,
        Change::Scaled => 1,
    };
    let new: Vec<_> = (0..count).map(|index| fresh_address(turn * 8 + index)).collect();
    let is_new = |address: Ipv4Addr| new.contains(&address);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| stage.client_host().run(|| wait_for(vip(number), CHANGE_WITHIN, is_new)));
        std::thread::sleep(BETWEEN_CHANGES);
        let begin = Instant::now();
        stage.set_endpoints(number, &new);
        let accepted = begin.elapsed();
        let answered = waiter.join().expect("the client does not panic").expect("the change arrives in time");
        (answered - begin, accepted)
    })
}

pub(crate) fn put_back(stage: &Stage, number: u32) {
    let old: Vec<_> = (0..stage.endpoints).map(|index| endpoint_address(number, index)).collect();
    stage.set_endpoints(number, &old);
    stage.client_host().run(|| wait_for(vip(number), CHANGE_WITHIN, |address| old.contains(&address)));
    std::thread::sleep(BETWEEN_CHANGES);
}

fn connect_by_turns(stage: &Stage) -> (Times, Times) {
    let (mut through, mut direct) = (Times::default(), Times::default());
    let count = stage.services * stage.endpoints;
    stage.client_host().run(|| {
        for number in 0..CONNECTIONS {
            let (service, index) = ((number * 7919) % stage.services, number % count % stage.endpoints);
            match number / TURN % 2 {
                0 => through.add(vip(service)),
                _ => direct.add(SocketAddr::from((endpoint_address(service, index), ENDPOINT_PORT))),
            }
        }
    });
    (through, direct)
}

/// CPU time of the process and of its children, such as `nft` and `iptables-restore`.
fn cpu_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((11..=14).map(ticks).sum::<u64>() * 1000 / rustix::param::clock_ticks_per_second())
}

pub(crate) fn memory_of(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Of all maps that the process has open, each once.
fn map_memory_of(process: u32) -> u64 {
    let infos = std::fs::read_dir(format!("/proc/{process}/fdinfo")).into_iter().flatten().flatten();
    let texts = infos.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let map = |text: String| Some((field(&text, "map_id:")?, field(&text, "memlock:")?));
    texts.filter_map(map).collect::<BTreeMap<u64, u64>>().into_values().sum()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}
