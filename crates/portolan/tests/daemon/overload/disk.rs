//! File systems without room for what the daemon writes: allocations, the control socket, its lock, and the value of
//! `route_localnet` to set back.

use std::fs;
use std::path::PathBuf;

use portolan_testkit::topology;

use crate::node::{Node, service};
use crate::poll::until;

const CANNOT_WRITE: &str = "cannot write the state file: No space left on device";
const IPTABLES: [&str; 6] =
    ["--proxy-mode", "iptables", "--iptables-localhost-nodeports=true", "--sync-period", "1s", "--min-sync-period=0s"];

/// A Service whose addresses are allocated.
fn allocated(name: &str, endpoint: &str) -> String {
    service(name, "\"\"", "type: NodePort", &[endpoint]).replace("  clusterIP: \"\"\n", "")
}

/// A line of shell that mounts a file system of so many pages for `folder`, and fills what is left of it after a copy of
/// what was there.
fn full(folder: &str, pages: usize) -> String {
    let size = pages * 4;
    format!(
        "mkdir -p {folder} && cp -r {folder} {folder}.before && mount -t tmpfs -o size={size}k none {folder} \
         && cp -r {folder}.before/. {folder}/ && (cat /dev/zero > {folder}/filled 2>/dev/null; :)"
    )
}

/// The folder as the daemon sees it.
fn seen(node: &Node, folder: &str) -> PathBuf {
    let path = node.path(folder);
    format!("/proc/{}/root{}", node.process(), path.display()).into()
}

fn rules(node: &Node) -> String {
    node.lab.host(topology::NODE).command(&["iptables", "-t", "nat", "-S"]).unwrap()
}

fn follow(node: &Node, endpoint: &str) {
    node.write("web.yaml", &allocated("web", endpoint));
    until("the change is in force", || rules(node).contains(&format!("--to-destination {endpoint}:8080")));
}

fn loopback(node: &Node) -> String {
    let words = ["cat", "/proc/sys/net/ipv4/conf/all/route_localnet"];
    node.lab.host(topology::NODE).command(&words).unwrap().trim().to_owned()
}

#[test]
fn a_full_disk_costs_what_cannot_be_written_and_nothing_else() {
    let mut node = Node::new();
    node.write("old.yaml", &allocated("old", "10.244.1.9"));
    node.start_with(&["--proxy-mode", "nftables"]);
    until("the allocation is stored", || node.path("state/allocations.json").exists());
    node.stop();
    let stored = fs::read_to_string(node.path("state/allocations.json")).unwrap();

    node.place_control_socket("run");
    let (state, run) = (node.path("state").display().to_string(), node.path("run").display().to_string());
    node.write("web.yaml", &allocated("web", "10.244.1.2"));
    node.start_after(&format!("{} && {}", full(&state, 2), full(&run, 1)), &IPTABLES);
    (3..30).for_each(|number| follow(&node, &format!("10.244.1.{number}")));
    let log = node.log();
    let place = format!("{state}/allocations.json: {CANNOT_WRITE}");
    assert_eq!(log.matches(&place).count(), 1, "{log}");
    assert!(log.contains("use another --state-directory"), "{log}");
    assert_eq!(log.matches("127.0.0.1 does not serve node ports").count(), 1, "{log}");
    assert!(log.contains(&format!("cannot be written to {run}/route_localnet (make")), "{log}");
    assert_eq!(loopback(&node), "0", "a value that cannot be set back is not set");
    let entries = |folder: &str| {
        let entries = fs::read_dir(seen(&node, folder)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(entries("state"), ["allocations.json", "filled"]);
    assert_eq!(entries("run"), ["control.sock", "control.sock.lock", "filled"]);
    assert_eq!(fs::read_to_string(seen(&node, "state/allocations.json")).unwrap(), stored);

    ["state/filled", "run/filled"].into_iter().for_each(|file| fs::remove_file(seen(&node, file)).unwrap());
    let written = || fs::read_to_string(seen(&node, "state/allocations.json")).unwrap();
    until("what waited is written", || written().contains("default/web") && loopback(&node) == "1");
    assert_eq!(fs::read_to_string(seen(&node, "run/route_localnet")).unwrap(), "0");
}

#[test]
fn without_a_control_socket_and_a_lock_the_daemon_serves() {
    let mut node = Node::new();
    node.place_control_socket("run");
    let run = node.path("run").display().to_string();
    node.write("web.yaml", &allocated("web", "10.244.1.2"));
    node.start_after(&format!("mkdir -p {run} && mount -t tmpfs -o nr_inodes=1 none {run}"), &IPTABLES);
    (3..6).for_each(|number| follow(&node, &format!("10.244.1.{number}")));
    let log = node.log();
    for reported in
        ["the control socket", "a second portolan proxy is not prevented", "127.0.0.1 does not serve node ports"]
    {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(reported)).collect();
        assert!(lines.len() == 1 && lines[0].contains(&run) && lines[0].contains("No space left"), "{reported}: {log}");
    }
}
