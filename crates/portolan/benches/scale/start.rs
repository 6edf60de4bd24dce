//! From process start to all Services programmed, in a new namespace; then a restart on the existing objects.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{SIZES, cluster, table};

pub(crate) fn run() {
    let mut rows = Vec::new();
    for (services, endpoints) in SIZES {
        let directory = tempfile::tempdir().expect("a temporary directory");
        cluster::write_manifests(&directory.path().join("manifests"), services, endpoints);
        rows.extend(start_twice(directory.path(), services, endpoints));
    }
    let heading = ["Services", "endpoints", "start", "ready after", "in the kernel", "RSS", "peak RSS"];
    table::print("From process start to all programmed (manifests, nftables mode)", &heading, &rows);
    println!("  target: 10,000 x 3: 2 s, 150 ms in the kernel, 40 MB; 50,000 x 5: 10 s, 150 MB");
}

/// Both starts happen in one namespace, held open by a shell that starts the one and then the other.
fn start_twice(directory: &Path, services: u32, endpoints: u32) -> Vec<Vec<String>> {
    let mut holder = hold_namespace();
    let rows = ["cold", "restart"].map(|kind| {
        let (ready, resident, peak) = start_once(holder.id(), directory);
        let word = |before: &str| -> String {
            let words: Vec<&str> = ready.split_whitespace().collect();
            words.windows(2).find(|pair| pair[1].starts_with(before)).map_or("?".into(), |pair| pair[0].into())
        };
        let kernel = ready.rsplit_once("start, ").map_or("?", |(_, rest)| rest.split(' ').next().unwrap_or("?"));
        vec![
            services.to_string(),
            endpoints.to_string(),
            kind.into(),
            format!("{} ms", word("ms")),
            format!("{kernel} ms"),
            resident,
            peak,
        ]
    });
    _ = holder.kill();
    _ = holder.wait();
    rows.into()
}

/// A process in a new network namespace. Waits until it has left ours.
fn hold_namespace() -> Child {
    let holder = Command::new("unshare").args(["-n", "sleep", "600"]).spawn().expect("unshare runs as root");
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).expect("it runs");
    while namespace(&holder.id().to_string()) == namespace("self") {
        std::thread::yield_now();
    }
    holder
}

/// The daemon's log line about being ready, and its memory at that time.
fn start_once(namespace_of: u32, directory: &Path) -> (String, String, String) {
    let namespace = format!("--net=/proc/{namespace_of}/ns/net");
    let at = |name: &str| directory.join(name).display().to_string();
    let mut daemon = Command::new("nsenter")
        .args([&namespace, "--", env!("CARGO_BIN_EXE_portolan"), "proxy", "--hostname-override", "node-1"])
        .args(["--service-cluster-ip-range", cluster::SERVICE_RANGE, "--manifests", &at("manifests")])
        .args(["--state-directory", &at("state"), "--control-socket", &at("socket")])
        .stderr(Stdio::piped())
        .spawn()
        .expect("nsenter runs as root");
    let ready = wait_for_ready(&mut daemon);
    let memory = |field: &str| memory_of(daemon.id(), field);
    let (resident, peak) = (memory("VmRSS:"), memory("VmHWM:"));
    _ = daemon.kill();
    _ = daemon.wait();
    (ready, resident, peak)
}

fn wait_for_ready(daemon: &mut Child) -> String {
    let log = BufReader::new(daemon.stderr.take().expect("it was piped"));
    let ready = log.lines().map_while(Result::ok).find(|line| line.contains("ready: "));
    ready.expect("the daemon gets ready")
}

fn memory_of(process: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kilobytes: f64 = line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0.0);
    format!("{:.1} MB", kilobytes * 1024.0 / 1e6)
}
