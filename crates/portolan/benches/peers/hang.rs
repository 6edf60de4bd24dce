//! One of three endpoints hangs: connections that fail or take longer than a second, for each proxy.

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::Contender;
use crate::measure::{log_of, start, stop};
use crate::stage::{Stage, endpoint_address, vip};

/// Connections a second, unless `rate=` says another number.
const RATE: u32 = 100;
const SLOW: Duration = Duration::from_secs(1);
const READY_WITHIN: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(20);
const LASTS: Duration = Duration::from_secs(60);
/// Where one column ends and the next begins, in seconds.
const COLUMNS: [(u64, u64); 3] = [(0, 3), (3, 10), (10, 60)];

/// Prints one line for each. `ipvs` measures that mode alone, which few kernels have.
pub(crate) fn run(stage: &Stage) {
    let is_ipvs = std::env::args().any(|argument| argument == "ipvs");
    let (peers, own): (&[&str], &[&str]) = if is_ipvs {
        (&["ipvs"], &["ipvs"])
    } else {
        (&["nftables", "iptables"], &["nftables", "iptables", "userspace", "ebpf"])
    };
    println!("| proxy | quarantine | 0-3 s | 3-10 s | 10-60 s |\n|---|---|---|---|---|");
    let peers = peers.iter().map(|mode| (Contender::kube_proxy(mode), false));
    let own = |quarantine| own.iter().map(move |mode| (Contender::portolan(mode), quarantine));
    for (contender, quarantine) in own(false).chain(own(true)).chain(peers) {
        stage.annotate(0, quarantine.then_some(("portolan.dev/quarantine", "on")));
        let program = start(stage, contender);
        let connections = measure(stage, contender);
        let cells = COLUMNS.map(|column| cell(&connections, column)).join(" | ");
        println!("| {} | {} | {cells} |", contender.name(), if quarantine { "on" } else { "-" });
        stop(stage, contender, program);
    }
}

fn measure(stage: &Stage, contender: Contender) -> Vec<(Duration, bool)> {
    let is_ready = stage.client_host().run(|| is_served(vip(0)));
    assert!(is_ready, "{} does not serve:\n{}", contender.name(), log_of(stage));
    stage.client_host().run(|| connect(vip(0), Duration::from_secs(2)));
    stage.hang(endpoint_address(0, 1));
    let connections = stage.client_host().run(|| connect(vip(0), LASTS));
    stage.recover();
    connections
}

/// Emulated machines are slow.
fn is_served(service: SocketAddr) -> bool {
    let begin = Instant::now();
    while TcpStream::connect_timeout(&service, SLOW).is_err() {
        if begin.elapsed() > READY_WITHIN {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// When each connection began, and whether it failed or was slow. None waits for another.
fn connect(service: SocketAddr, time: Duration) -> Vec<(Duration, bool)> {
    let begin = Instant::now();
    let open = move || {
        let start = begin.elapsed();
        (start, TcpStream::connect_timeout(&service, SLOW).is_err())
    };
    let rate = rate();
    let count = time.as_millis() as u32 * rate / 1000;
    let start = |number: u32| {
        thread::sleep((Duration::from_secs(1) * number / rate).saturating_sub(begin.elapsed()));
        thread::spawn(open)
    };
    let threads: Vec<_> = (0..count).map(start).collect();
    threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
}

fn rate() -> u32 {
    let number = |word: String| word.strip_prefix("rate=").map(|number| number.parse().expect("rate= takes a number"));
    std::env::args().find_map(number).unwrap_or(RATE)
}

fn cell(connections: &[(Duration, bool)], (from, to): (u64, u64)) -> String {
    let column = connections.iter().filter(|(start, _)| (from..to).contains(&start.as_secs()));
    let (failed, all) = (column.clone().filter(|(_, failed)| *failed).count(), column.count());
    format!("{failed} of {all} ({:.2} %)", failed as f64 / all.max(1) as f64 * 100.0)
}
