//! The results as a table, and into the documentation.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::measure::Result;
use crate::plot;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks.md");
const PLOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/peers.svg");
const BEGIN: &str = "<!-- make bench-peers writes from here -->\n";
const END: &str = "<!-- to here -->\n";

type Column = (&'static str, fn(&Result) -> String);

const COLUMNS: [Column; 16] = [
    ("Services", |it| format!("{} x {}", it.services, it.endpoints)),
    ("", |it| it.contender.name()),
    ("start", |it| seconds(it.start)),
    ("CPU of start", |it| seconds(it.start_cpu)),
    ("replaced p50", |it| milliseconds(it.replaced.time(0.5))),
    ("p99", |it| milliseconds(it.replaced.time(0.99))),
    ("API's part p50 / p99", |it| both(milliseconds, it.replaced.write(0.5), it.replaced.write(0.99))),
    ("CPU per change", |it| milliseconds(it.replaced.cpu)),
    ("scaled p50 / p99", |it| both(milliseconds, it.scaled.time(0.5), it.scaled.time(0.99))),
    ("CPU per scaling", |it| milliseconds(it.scaled.cpu)),
    ("RSS", |it| megabytes(it.memory)),
    ("peak", |it| megabytes(it.peak_memory)),
    ("BPF maps", |it| if it.maps == 0 { "-".into() } else { megabytes(it.maps) }),
    ("VIP conn/s", |it| format!("{:.0}", it.through.per_second())),
    ("VIP p50 / p99", |it| both(microseconds, it.through.percentile(0.5), it.through.percentile(0.99))),
    ("direct p50 / p99", |it| both(microseconds, it.direct.percentile(0.5), it.direct.percentile(0.99))),
];

fn both(show: fn(Duration) -> String, middle: Duration, high: Duration) -> String {
    format!("{} / {}", show(middle), show(high))
}

pub(crate) fn line(result: &Result) -> String {
    let cells = COLUMNS.iter().skip(2).map(|(name, cell)| format!("{name} {}", cell(result)));
    let failed = result.through.failed + result.direct.failed;
    format!(
        "{}, {} changes, {failed} failed",
        cells.collect::<Vec<_>>().join(", "),
        result.replaced.times.len() + result.scaled.times.len()
    )
}

pub(crate) fn table(results: &[Result]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = row(COLUMNS.iter().map(|(name, _)| (*name).into()).collect());
    text += &row(COLUMNS.iter().map(|_| "---:".into()).collect());
    for result in results {
        text += &row(COLUMNS.iter().map(|(_, cell)| cell(result)).collect());
    }
    text
}

/// Writes table and plot into the documentation, with machine and versions.
pub(crate) fn write(results: &[Result]) {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/benchmarks.md is there");
    let (before, rest) = document.split_once(BEGIN).expect("docs/benchmarks.md has a place for the results");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let text = format!("{before}{BEGIN}\n{}\n{}\n{END}{after}", environment(), shown(results));
    std::fs::write(DOCUMENT, text).expect("docs/benchmarks.md can be written");
    std::fs::write(PLOT, plot::plot(results)).expect("docs/peers.svg can be written");
    eprintln!("wrote {} and {}", Path::new(DOCUMENT).display(), Path::new(PLOT).display());
}

fn shown(results: &[Result]) -> String {
    let failed: usize = results.iter().map(|it| it.through.failed + it.direct.failed).sum();
    let changes: Vec<String> =
        results.iter().map(|it| (it.replaced.times.len() + it.scaled.times.len()).to_string()).collect();
    let mut text = table(results);
    _ = writeln!(text, "\nChanges measured, by row: {}. Connections that failed: {failed}.\n", changes.join(", "));
    text += "![Start, change, CPU and memory of each](peers.svg)\n";
    text
}

fn environment() -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("a processor");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "Made by `make bench-peers` on {} on {cores} cores ({}), Linux {}, {}, {}, kube-proxy {}, Portolan {}.\n",
        output_of("date", &["--utc", "+%-d %B %Y"]),
        processor.trim_matches([' ', '\t', ':']),
        output_of("uname", &["--kernel-release"]),
        output_of("nft", &["--version"]),
        output_of("iptables", &["--version"]),
        kube_proxy_version(),
        env!("CARGO_PKG_VERSION"),
    )
}

fn kube_proxy_version() -> String {
    let program = portolan_testkit::cluster::kubernetes_program("kube-proxy").expect("it has just run");
    output_of(&program.display().to_string(), &["--version"]).replace("Kubernetes ", "")
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn microseconds(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
