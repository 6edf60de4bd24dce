//! 100,000 connections from a pod and from the node through ClusterIP and node port in ebpf mode, while endpoints change,
//! programs are replaced, the daemon is killed and the mode changes to each other mode and back. Then clients of UDP whose
//! endpoint is removed.
//!
//! `cargo bench -p portolan --bench scale -- churn connections=2000` ends with the last disturbance.

mod clients;
mod datagrams;
mod disturb;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_testkit::Protocol;

use crate::node::{Node, service};
use crate::{number_of, table};
use clients::Clients;
use disturb::Disturbances;

const CONNECTIONS: usize = 100_000;
const MODE: &str = "ebpf";
const PORT: u16 = 8080;
/// Pods that are always endpoints, and pods that come and go. All of them serve all the time, so that every failure is the
/// proxy's.
const STAYING: [&str; 2] = ["10.244.1.3", "10.244.2.2"];
const CHANGING: [&str; 3] = ["10.244.1.4", "10.244.2.3", "10.244.2.4"];
const SHOWN_FAILURES: usize = 10;
const SHOWN_LOG_LINES: usize = 60;

/// Whether nothing failed.
pub(crate) fn run() -> bool {
    let are_connected = connect();
    datagrams::run() && are_connected
}

fn connect() -> bool {
    let node = Node::start(MODE, &[("web", web(&STAYING))]);
    for pod in STAYING.iter().chain(&CHANGING) {
        let address = SocketAddr::new(pod.parse().expect("an address"), PORT);
        node.lab.serve(address, Protocol::Tcp).expect("the pod serves");
    }
    let clients = Clients::new(number_of("connections", CONNECTIONS));
    let mut disturbances = Disturbances::new(&node, &clients);
    let begin = Instant::now();
    let ended = std::thread::scope(|scope| {
        clients.start(scope, &node);
        scope.spawn(|| disturb::change_endpoints(&node, &clients));
        let ended = disturbances.run();
        clients.end();
        ended
    });
    show(&clients, &disturbances, begin.elapsed());
    let has_worked = ended.is_ok() && clients.failures().is_empty();
    if !has_worked {
        ended.err().into_iter().for_each(|error| println!("  {error}"));
        eprintln!("the end of the daemon's log:\n{}", node.last_log_lines(SHOWN_LOG_LINES));
    }
    has_worked
}

fn web(endpoints: &[&str]) -> String {
    service("web", "10.96.0.80", "port: 80, nodePort: 30080", ("TCP", PORT), endpoints)
}

fn show(clients: &Clients, disturbances: &Disturbances<'_>, elapsed: Duration) {
    let failures = clients.failures();
    let row = vec![
        clients.done().to_string(),
        failures.len().to_string(),
        clients.slow().to_string(),
        format!("{:.0}/s", clients.done() as f64 / elapsed.as_secs_f64()),
        clients.hooked(),
        clients.endpoint_changes().to_string(),
        disturbances.restarts.to_string(),
        disturbances.kills.to_string(),
        disturbances.mode_changes.to_string(),
    ];
    table::print(
        "Connections in ebpf mode during disturbances; a restart, a kill and a mode change replace all programs",
        &[
            "connections",
            "failed",
            "slower than 500 ms",
            "rate",
            "pod to node port by hook",
            "endpoint changes",
            "restarts",
            "kill -9",
            "mode changes",
        ],
        &[row],
    );
    println!("  modes: {}", disturbances.path());
    failures.iter().take(SHOWN_FAILURES).for_each(|failure| println!("  {failure}"));
}
