//! The API server becomes unreachable and returns, while traffic flows.

use std::net::SocketAddr;

use portolan_testkit::{Load, LongConnection, Stream, Tally};
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::{Cluster, address};
use crate::objects::{WEB, service, service_path, slice, slice_path};
use crate::poll::until;

/// Services with five endpoints each that change during the outage.
const CHANGING: usize = 100;

/// How long the cut lasts; `CUT_SECONDS=30` makes it longer.
const CUT_SECONDS: u64 = 6;
const CONNECTIONS_PER_SECOND: u32 = 1_000;

fn name(number: usize) -> String {
    format!("changing-{number}")
}

fn cluster_ip(number: usize) -> String {
    format!("10.96.1.{number}")
}

/// Five endpoints, others for each version.
fn endpoints(number: usize, version: usize) -> Vec<String> {
    (0..5).map(|it| format!("10.244.{}.{}", 100 + version, (number * 5 + it) % 250 + 1)).collect()
}

fn slice_of(number: usize, version: usize) -> Value {
    let endpoints = endpoints(number, version);
    slice(&name(number), &endpoints.iter().map(String::as_str).collect::<Vec<_>>())
}

fn create(cluster: &Cluster, numbers: std::ops::Range<usize>) {
    let services: Vec<Value> = numbers.clone().map(|it| service(&name(it), &cluster_ip(it))).collect();
    let slices: Vec<Value> = numbers.map(|it| slice_of(it, 0)).collect();
    cluster.control_plane.client().create_all(&services).unwrap_or_else(|error| panic!("{error}"));
    cluster.control_plane.client().create_all(&slices).unwrap_or_else(|error| panic!("{error}"));
}

/// All change: a third is deleted, a third is new, and the rest gets other endpoints.
fn change_everything(cluster: &Cluster) {
    let client = cluster.control_plane.client();
    let third = CHANGING / 3;
    let gone: Vec<String> = (0..third).flat_map(|it| [service_path(&name(it)), slice_path(&name(it))]).collect();
    client.delete_all(&gone).unwrap_or_else(|error| panic!("{error}"));
    let others: Vec<Value> = (third..2 * third).map(|it| slice_of(it, 1)).collect();
    client.replace_all(&others).unwrap_or_else(|error| panic!("{error}"));
    create(cluster, CHANGING - third..CHANGING);
}

/// A node with traffic to an endpoint that never changes, and with Services that will change.
fn cluster_under_way() -> Cluster {
    let cluster = Cluster::start();
    cluster.create_web(&["10.244.1.2", "10.244.2.2"]);
    create(&cluster, 0..CHANGING - CHANGING / 3);
    cluster
}

fn streams() -> [Stream; 2] {
    let to: SocketAddr = address(WEB);
    [Stream { from: "pod-a3", to }, Stream { from: "client", to }]
}

/// Waits by the number of connections.
fn wait_out_the_cut(load: &Load) {
    let seconds = std::env::var("CUT_SECONDS").map_or(CUT_SECONDS, |text| text.parse().unwrap());
    for _ in 0..seconds {
        let before = load.opened();
        until("traffic flows during the cut", || load.opened() >= before + u64::from(CONNECTIONS_PER_SECOND));
    }
}

fn assert_unharmed(tally: &Tally, lasting: &[LongConnection]) {
    println!("{} connections at {:.0}/s, {} failed", tally.connections, tally.per_second, tally.failures.len());
    assert!(tally.failures.is_empty(), "{} connections failed, such as {}", tally.failures.len(), tally.failures[0]);
    for connection in lasting {
        assert_eq!(connection.exchange(b"hello").unwrap(), b"hello");
    }
}

/// A fresh start has nothing to write: the kernel already holds its objects.
fn assert_as_after_a_fresh_start(cluster: &Cluster, daemon: portolan_testkit::cluster::Program) {
    cluster.until_in_force();
    daemon.end(Signal::TERM);
    let generation = cluster.generation();
    let _fresh = cluster.start_portolan();
    assert_eq!(cluster.generation(), generation, "a fresh start changed the rules");
}

/// The dataplane keeps its last state while the server is unreachable, and then gets exactly the missed changes.
#[test]
fn what_changed_behind_a_cut_arrives_after_it() {
    let cluster = cluster_under_way();
    let daemon = cluster.start_portolan();
    let lasting: Vec<LongConnection> = (0..20).map(|_| cluster.connect("pod-a3", WEB)).collect();
    let generation = cluster.generation();
    let load = cluster.lab.load(&streams(), CONNECTIONS_PER_SECOND);
    cluster.control_plane.cut_off().unwrap();
    change_everything(&cluster);
    wait_out_the_cut(&load);
    assert_eq!(cluster.generation(), generation, "something was programmed during the cut");
    cluster.control_plane.reconnect().unwrap();
    assert_as_after_a_fresh_start(&cluster, daemon);
    assert_unharmed(&load.stop(), &lasting);
}

/// SIGKILL, and changed data after the restart.
#[test]
fn the_api_server_is_killed_and_restarted() {
    let mut cluster = cluster_under_way();
    let daemon = cluster.start_portolan();
    let lasting: Vec<LongConnection> = (0..20).map(|_| cluster.connect("pod-a3", WEB)).collect();
    let load = cluster.lab.load(&streams(), 300);
    cluster.control_plane.kill_api_server();
    assert!(cluster.answer("node-a", WEB).starts_with("pod-"), "the rules stay while the server is away");
    cluster.control_plane.start_api_server().unwrap();
    change_everything(&cluster);
    assert_as_after_a_fresh_start(&cluster, daemon);
    assert_unharmed(&load.stop(), &lasting);
}
