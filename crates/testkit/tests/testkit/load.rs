//! A load counts what it opens, and finds every connection that fails.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use portolan_testkit::{Lab, Load, Protocol, Stream};

const SERVED: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 244, 1, 2)), 8080);
const TIMEOUT: Duration = Duration::from_secs(20);

fn lab() -> Lab {
    let lab = Lab::new().unwrap_or_else(|error| panic!("{error}"));
    lab.serve(SERVED, Protocol::Tcp).unwrap_or_else(|error| panic!("{error}"));
    lab
}

fn wait_for_more(load: &Load) {
    let (before, start) = (load.opened(), Instant::now());
    while load.opened() < before + 100 {
        assert!(start.elapsed() < TIMEOUT, "no more connections were opened");
        thread::yield_now();
    }
}

#[test]
fn a_load_goes_on_until_it_is_stopped() {
    let lab = lab();
    let load = lab.load(&[Stream { from: "pod-a2", to: SERVED }, Stream { from: "client", to: SERVED }], 1_000);
    wait_for_more(&load);
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{:?}", tally.failures);
    assert!(tally.connections >= 100 && tally.slowest > Duration::ZERO);
}

#[test]
fn a_load_finds_refusals_between_successes() {
    let lab = lab();
    let load = lab.load(&[Stream { from: "pod-a2", to: SERVED }], 1_000);
    wait_for_more(&load);
    let refuse = "table ip refuse { chain forward { type filter hook forward priority 0; tcp dport 8080 reject with tcp reset; }; }";
    let node = lab.host("node-a");
    node.command_with_input(&["nft", "-f", "-"], refuse).unwrap_or_else(|error| panic!("{error}"));
    node.command(&["nft", "delete", "table", "ip", "refuse"]).unwrap_or_else(|error| panic!("{error}"));
    wait_for_more(&load);
    let tally = load.stop();
    assert!(tally.failures.iter().any(|failure| failure.contains("pod-a2 -> 10.244.1.2:8080")), "{tally:?}");
}
