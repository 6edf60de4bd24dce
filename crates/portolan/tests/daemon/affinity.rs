//! ebpf mode remembers the clients of session affinity in a map that has its full size only where a Service needs it.

use std::fs;

use portolan_testkit::Protocol;

use crate::ebpf::{FLAGS, maps, pinned, pins, running};
use crate::node::{Node, service};
use crate::poll::until;
use crate::traffic::Traffic;

const CLIENTS: &str = "clients";
const STICKY: &str = "10.96.0.90:80";
const AFFINITY: &str = "sessionAffinity: ClientIP";
/// A map for all clients takes 7 MB.
const LITTLE: u64 = 100_000;

fn write_sticky(node: &Node) {
    node.write("sticky.yaml", &service("sticky", "10.96.0.90", AFFINITY, &["10.244.1.2", "10.244.2.2"]));
    until("it is served", || node.answer("pod-a3", STICKY, Protocol::Tcp).starts_with("pod-"));
}

#[test]
fn the_map_of_clients_is_small_until_a_service_has_affinity() {
    let mut node = running();
    let traffic = Traffic::start(&node);
    assert!(pinned(&node, CLIENTS).memory().unwrap() < LITTLE);
    write_sticky(&node);
    let large = pinned(&node, CLIENTS);
    assert!(large.memory().unwrap() > LITTLE && large.info().max_entries == 65_536, "{:?}", large.info());
    let endpoint = node.answers("pod-a3", STICKY);
    assert_eq!((endpoint.len(), large.entries().unwrap().len()), (1, 1), "a hook remembers the pod");

    node.write("more.yaml", &service("more", "10.96.0.91", AFFINITY, &["10.244.1.2"]));
    until("it is served", || node.answer("pod-a3", "10.96.0.91:80", Protocol::Tcp) == "pod-a1");
    node.kill();
    node.start_with(&FLAGS);
    assert_eq!(pinned(&node, CLIENTS).info().id, large.info().id);
    assert_eq!(node.answers("pod-a3", STICKY), endpoint, "a restart keeps the clients");
    traffic.stop_without_failures();
    assert!(!node.log().contains("another process detached"), "{}", node.log());
}

/// The daemon cannot pin another map.
#[test]
fn without_a_map_of_clients_the_rules_serve_affinity() {
    let node = running();
    let folder = maps(&pins(&node).expect("the daemon has pinned its maps"));
    fs::read_dir(&folder).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
    fs::remove_dir(&folder).unwrap();
    write_sticky(&node);
    assert_eq!(node.answers("pod-a3", STICKY).len(), 1);
    let page = node.get("127.0.0.1:10249", "/metrics");
    assert!(page.contains("\nportolan_unaccelerated_frontends 1\n"), "{page}");
}
