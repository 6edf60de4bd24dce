//! The table at the end, and whether all is as it must be.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::{Cluster, SERVICES, udp_services};
use crate::disturb::Disturbances;
use crate::resources::{Resources, Sample, settled, slope_per_hour};
use crate::stage::{endpoint_address, vip};
use crate::traffic::{Tally, Traffic};

/// Growth in an hour that is still flat: what is allocated varies a little with the endpoints that are in use at the time, the
/// pages that hold it with the free memory between, and descriptors with the connections of the moment.
const MOST_HEAP_GROWTH: f64 = 500.0;
const MOST_PAGES_GROWTH: f64 = 2_000.0;
const MOST_DESCRIPTOR_GROWTH: f64 = 3.0;

/// What holds at the end.
pub(crate) struct End {
    verified: Result<(), String>,
    stale_flows: usize,
}

impl End {
    pub(crate) fn read(cluster: &Cluster) -> Self {
        Self { verified: cluster.daemon.verify(), stale_flows: stale_flows(cluster) }
    }
}

/// Tracked flows of UDP Services that lead to endpoints which are gone.
fn stale_flows(cluster: &Cluster) -> usize {
    let listed = cluster.daemon.node().command(&["conntrack", "-L", "-p", "udp"]).expect("conntrack works");
    let is_stale = |number: u32, line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let has = |word: String| words.contains(&&*word);
        has(format!("dst={}", vip(number).ip()))
            && (0..8).map(|index| endpoint_address(number, index)).any(|address| {
                has(format!("src={address}")) && cluster.endpoints.is_gone_for(number, address, Duration::from_secs(10))
            })
    };
    listed.lines().filter(|line| udp_services().any(|number| is_stale(number, line))).count()
}

pub(crate) fn print(
    elapsed: Duration,
    traffic: &Traffic,
    resources: &Resources,
    disturbances: &Disturbances<'_>,
    end: &End,
) -> ExitCode {
    let samples = resources.samples();
    let settled = settled(&samples, elapsed);
    let growth = Growth::of(&settled);
    let most = |of: fn(&Sample) -> f64| samples.iter().map(of).fold(0.0, f64::max);
    let failed_connections = traffic.connections.failed_outside(&disturbances.damaged);
    let failed_queries = traffic.queries.failed_outside(&disturbances.nameless);
    let rows = [
        ("minutes", format!("{:.0}", elapsed.as_secs_f64() / 60.0)),
        ("Services", SERVICES.to_string()),
        ("endpoint changes", disturbances.changes.to_string()),
        ("restarts, every other by SIGKILL", disturbances.restarts.to_string()),
        ("changes of the mode", disturbances.modes.to_string()),
        ("outages of the API server", disturbances.outages.to_string()),
        ("damages by another program", disturbances.damaged.len().to_string()),
        ("new connections, failed", of(&traffic.connections)),
        ("of these, more than 1 s after a damage", failed_connections.to_string()),
        ("exchanges over open connections to endpoints that stay, failed", of(&traffic.held)),
        ("datagrams, unanswered", of(&traffic.datagrams)),
        ("datagrams to an endpoint that is gone", traffic.stale.load(Ordering::Relaxed).to_string()),
        ("DNS queries, failed", of(&traffic.queries)),
        ("of these, not at a restart", failed_queries.to_string()),
        ("memory allocated, most", format!("{:.1} MB", most(|it| it.heap_kilobytes) / 1000.0)),
        ("its growth in the last third", growth_text(growth.heap, " kB")),
        ("RSS, most", format!("{:.1} MB", most(|it| it.resident_kilobytes) / 1000.0)),
        ("of this, without the program file", format!("{:.1} MB", most(|it| it.own_kilobytes) / 1000.0)),
        ("its growth in the last third", growth_text(growth.pages, " kB")),
        ("descriptors, most", format!("{:.0}", most(|it| it.descriptors))),
        ("their growth in the last third", growth_text(growth.descriptors, "")),
        ("stale conntrack entries of UDP at the end", end.stale_flows.to_string()),
        ("kernel holds the plan at the end", if end.verified.is_ok() { "yes" } else { "no" }.to_owned()),
    ];
    println!("| soak | |\n| --- | ---: |");
    rows.iter().for_each(|(what, value)| println!("| {what} | {value} |"));
    let lost = Lost { connections: failed_connections, queries: failed_queries };
    verdict(traffic, &lost, &growth, end)
}

/// In an hour, of a daemon that has settled; `None` in a run that is too short for it.
struct Growth {
    /// In kilobytes, as the next.
    heap: Option<f64>,
    pages: Option<f64>,
    descriptors: Option<f64>,
}

impl Growth {
    fn of(settled: &[Sample]) -> Self {
        Self {
            heap: slope_per_hour(settled, |it| it.heap_kilobytes),
            pages: slope_per_hour(settled, |it| it.own_kilobytes),
            descriptors: slope_per_hour(settled, |it| it.descriptors),
        }
    }
}

fn growth_text(growth: Option<f64>, unit: &str) -> String {
    growth.map_or("unknown".to_owned(), |growth| format!("{growth:+.1}{unit} an hour"))
}

fn of(tally: &Tally) -> String {
    format!("{}, {}", tally.done.load(Ordering::Relaxed), tally.failed())
}

/// What failed without an excuse: damaged rules fail new connections until they are repaired, and a daemon that starts knows
/// no names. Connections that are open have none.
struct Lost {
    connections: usize,
    queries: usize,
}

fn verdict(traffic: &Traffic, lost: &Lost, growth: &Growth, end: &End) -> ExitCode {
    let failures = [
        (lost.connections > 0, "new connections failed without a damage"),
        (lost.queries > 0, "DNS queries failed without a restart"),
        (traffic.held.failed() > 0, "connections to endpoints that stay broke"),
        (traffic.stale.load(Ordering::Relaxed) > 0, "datagrams reached endpoints that are gone"),
        (end.stale_flows > 0, "stale flows are left in conntrack"),
        (growth.heap > Some(MOST_HEAP_GROWTH), "the memory that is allocated grows"),
        (growth.pages > Some(MOST_PAGES_GROWTH), "the memory without the program file grows"),
        (growth.descriptors > Some(MOST_DESCRIPTOR_GROWTH), "descriptors grow"),
        (end.verified.is_err(), "the kernel does not hold the plan"),
    ];
    let failures: Vec<&str> = failures.iter().filter(|(is_so, _)| *is_so).map(|(_, what)| *what).collect();
    failures.iter().for_each(|what| eprintln!("failed: {what}"));
    end.verified.as_ref().err().into_iter().for_each(|difference| eprintln!("{difference}"));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
