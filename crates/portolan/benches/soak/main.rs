//! A node with 2,000 Services for half an hour or days: `make soak`.
//!
//! Endpoints churn, the daemon is restarted and changes its mode, the API server goes away, other programs damage the
//! rules; connections, datagrams and DNS queries go on all the while. At the end the kernel must hold the plan, nothing that
//! had to work may have failed, and memory and descriptors must be flat.

mod cluster;
mod daemon;
mod disturb;
mod endpoints;
mod growth;
mod report;
mod resources;
mod server;
#[expect(dead_code, reason = "the benchmarks beside kube-proxy use more")]
#[path = "../peers/stage.rs"]
mod stage;
mod traffic;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cluster::Cluster;
use disturb::Disturbances;
use resources::Resources;
use traffic::Traffic;

const DEFAULT_MINUTES: u64 = 30;
/// At the end, everything in flight has this long to settle.
const SETTLE: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let duration = Duration::from_secs(60 * minutes());
    let cluster = Cluster::build();
    let (traffic, resources) = (Traffic::default(), Resources::default());
    let mut disturbances = Disturbances::new(&cluster);
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        traffic.start(scope, &cluster, &is_over);
        scope.spawn(|| resources.watch(&cluster, &is_over));
        disturbances.run_for(duration);
        std::thread::sleep(SETTLE);
        is_over.store(true, Ordering::Relaxed);
    });
    let end = report::End::read(&cluster);
    report::print(begin.elapsed(), &traffic, &resources, &disturbances, &end)
}

fn minutes() -> u64 {
    let given = std::env::args().find_map(|argument| argument.strip_prefix("minutes=").map(str::to_owned));
    given.map_or(DEFAULT_MINUTES, |text| text.parse().expect("minutes=NUMBER"))
}
