//! The table at the end, and whether all is as it must be.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, SERVICES, udp_services};
use crate::disturb::Disturbances;
use crate::growth::{Growth, print_medians, text};
use crate::resources::{Resources, Sample};
use crate::stage::{endpoint_address, vip};
use crate::traffic::{Tally, Traffic};

/// What must be flat, and how much more of it there may be at the end of the last third than at its beginning, as a share: in a
/// run of days, that is next to nothing an hour. Pages have more, because free memory between allocations takes hours until it
/// is spread as far as it will be.
struct Quantity {
    of: fn(&Sample) -> f64,
    most_growth: f64,
    failure: &'static str,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity { of: |it| it.heap_kilobytes, most_growth: 0.05, failure: "the memory that is allocated grows" },
    Quantity { of: |it| it.own_kilobytes, most_growth: 0.1, failure: "the memory without the program file grows" },
    Quantity { of: |it| it.descriptors, most_growth: 0.1, failure: "descriptors grow" },
];

/// Queries that fail so soon after each other have one cause.
const SAME_TIME: Duration = Duration::from_secs(2);

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
    let growths = QUANTITIES.map(|quantity| Growth::of(&samples, elapsed, quantity.of));
    let [heap, pages, descriptors] = growths.each_ref().map(Option::as_ref);
    let most = |of: fn(&Sample) -> f64| samples.iter().map(of).fold(0.0, f64::max);
    let without_damage = |tally: &Tally| tally.failures_outside(&disturbances.damaged).len();
    let (failed_connections, broken) = (without_damage(&traffic.connections), without_damage(&traffic.held));
    let nameless = traffic.queries.failures_outside(&disturbances.nameless);
    let failed_queries = nameless.len();
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
        ("of these, more than 1 s after a damage", broken.to_string()),
        ("datagrams, unanswered", of(&traffic.datagrams)),
        ("datagrams to an endpoint that is gone", traffic.stale.load(Ordering::Relaxed).to_string()),
        ("DNS queries, failed", of(&traffic.queries)),
        ("of these, not at a restart", failed_queries.to_string()),
        ("memory allocated, most", format!("{:.1} MB", most(|it| it.heap_kilobytes) / 1000.0)),
        ("its growth in the last third", text(heap, " kB")),
        ("RSS, most", format!("{:.1} MB", most(|it| it.resident_kilobytes) / 1000.0)),
        ("of this, without the program file", format!("{:.1} MB", most(|it| it.own_kilobytes) / 1000.0)),
        ("its growth in the last third", text(pages, " kB")),
        ("descriptors, most", format!("{:.0}", most(|it| it.descriptors))),
        ("their growth in the last third", text(descriptors, "")),
        ("stale conntrack entries of UDP at the end", end.stale_flows.to_string()),
        ("kernel holds the plan at the end", if end.verified.is_ok() { "yes" } else { "no" }.to_owned()),
    ];
    println!("| soak | |\n| --- | ---: |");
    rows.iter().for_each(|(what, value)| println!("| {what} | {value} |"));
    print_medians(&samples);
    print_nameless(&nameless, &disturbances.nameless);
    let lost = Lost { connections: failed_connections, open: broken, queries: failed_queries };
    verdict(traffic, &lost, &growths, end)
}

/// A line for each time that DNS queries failed without an excuse.
fn print_nameless(failures: &[Instant], restarts: &[Range<Instant>]) {
    for time in failures.chunk_by(|one, next| *next - *one < SAME_TIME) {
        let (begin, end) = (time[0], time[time.len() - 1]);
        let last = restarts.iter().map(|restart| restart.start).filter(|start| *start < begin).max();
        let since = last.map_or("before any restart".to_owned(), |it| format!("{:.1?} after a restart", begin - it));
        eprintln!("{} DNS queries failed within {:.1?}, {since}", time.len(), end - begin);
    }
}

fn of(tally: &Tally) -> String {
    format!("{}, {}", tally.done.load(Ordering::Relaxed), tally.failed())
}

/// What failed without an excuse: a daemon that starts knows no names, and until damaged rules are repaired, new connections fail. An
/// open one breaks if the answer to a packet that was translated finds the table deleted: the client resets what it does not know.
struct Lost {
    connections: usize,
    open: usize,
    queries: usize,
}

fn verdict(traffic: &Traffic, lost: &Lost, growths: &[Option<Growth>], end: &End) -> ExitCode {
    let failures = [
        (lost.connections > 0, "new connections failed without a damage"),
        (lost.queries > 0, "DNS queries failed without a restart"),
        (lost.open > 0, "connections to endpoints that stay broke without a damage"),
        (traffic.stale.load(Ordering::Relaxed) > 0, "datagrams reached endpoints that are gone"),
        (end.stale_flows > 0, "stale flows are left in conntrack"),
        (end.verified.is_err(), "the kernel does not hold the plan"),
    ];
    let grows = |(quantity, growth): (&Quantity, &Option<Growth>)| {
        (growth.as_ref().is_some_and(|it| it.exceeds(quantity.most_growth)), quantity.failure)
    };
    let failures = failures.into_iter().chain(QUANTITIES.iter().zip(growths).map(grows));
    let failures: Vec<&str> = failures.filter(|(is_so, _)| *is_so).map(|(_, what)| what).collect();
    failures.iter().for_each(|what| eprintln!("failed: {what}"));
    end.verified.as_ref().err().into_iter().for_each(|difference| eprintln!("{difference}"));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
