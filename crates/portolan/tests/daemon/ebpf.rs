//! ebpf mode on the lab's node: hooks at connect(2), and the rules behind them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use portolan_kernel::bpf::{Map, network_namespace_cookie};
use portolan_testkit::Protocol;

use crate::node::{Node, WEB, WEB_IP, udp_service, web};
use crate::poll::until;
use crate::traffic::{Traffic, node_with_service};

pub(crate) const FLAGS: [&str; 2] = ["--proxy-mode=ebpf", "--nodeport-addresses=192.168.50.0/24"];
pub(crate) const NODE_PORT: &str = "192.168.50.1:30080";
pub(crate) const POD_A3: &str = "10.244.1.4";
const PINS: &str = "/sys/fs/bpf/portolan";

pub(crate) fn running() -> Node {
    let mut node = node_with_service();
    node.start_with(&FLAGS);
    node
}

/// The rules masquerade a pod that uses a node port, and hooks do not.
fn is_hooked(node: &Node) -> bool {
    node.connect("pod-a3", NODE_PORT, Protocol::Tcp).answer().seen_source.to_string() == POD_A3
}

/// Where the daemon of this node has pinned its maps and links.
pub(crate) fn pins(node: &Node) -> Option<PathBuf> {
    let nodes = fs::read_dir(PINS).into_iter().flatten().flatten();
    let is_own =
        |path: &PathBuf| fs::read_link(path.join("cgroup")).is_ok_and(|it| Some(it.as_path()) == node.lab.cgroup());
    nodes.map(|entry| entry.path()).find(is_own)
}

/// The folder of its maps; its name has the version of their layout.
pub(crate) fn maps(pins: &Path) -> PathBuf {
    let folders = fs::read_dir(pins).unwrap().map(|entry| entry.unwrap().path());
    let mut maps = folders.filter(|path| path.to_string_lossy().contains("/maps-"));
    maps.next().expect("the daemon has pinned its maps")
}

/// One of its maps, as it is pinned.
pub(crate) fn pinned(node: &Node, name: &str) -> Map {
    let path = maps(&pins(node).expect("the daemon has pinned its maps")).join(name);
    Map::open(&path).unwrap().expect("the map is pinned")
}

#[test]
fn hooks_work_while_no_daemon_runs_and_a_restart_writes_nothing() {
    let mut node = running();
    assert!(is_hooked(&node));
    node.kill();
    assert!(is_hooked(&node));
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1", "pod-b1"]);
    node.start_with(&FLAGS);
    until("nothing is written", || node.log().contains("ready: 1 Service ports, 0 objects written"));
    assert!(is_hooked(&node));
}

/// Twice, because what was reported once is not reported again.
#[test]
fn a_hook_that_another_process_detaches_is_attached_again() {
    let node = running();
    let link = pins(&node).expect("the daemon has pinned its hooks").join("links/connect4");
    let noticed = || node.log().matches("another process detached the hook connect4").count();
    for time in 1..=2 {
        until("the watch notices it", || {
            // The first comparison after the start repairs without the watch.
            if noticed() < time && link.exists() {
                fs::remove_file(&link).unwrap();
            }
            noticed() >= time
        });
        until("the hook is attached again", || link.exists() && is_hooked(&node));
    }
}

/// Each start replaces the programs in their links.
#[test]
fn no_connection_fails_while_endpoints_change_and_programs_are_replaced() {
    let mut node = running();
    let traffic = Traffic::start(&node);
    let manifest = fs::read_to_string(node.path("manifests/web.yaml")).unwrap();
    for round in 0..5 {
        traffic.go_on();
        let left = if round % 2 == 0 { manifest.replace("10.244.2.2", "10.244.1.2") } else { manifest.clone() };
        node.write("web.yaml", &left);
        node.kill();
        node.start_with(&FLAGS);
    }
    traffic.go_on();
    assert!(is_hooked(&node));
    traffic.stop_without_failures();
}

#[test]
fn cleanup_leaves_neither_hooks_nor_rules() {
    let mut node = running();
    node.stop();
    let cleaned = node.plainly(&["cleanup"]);
    assert!(String::from_utf8_lossy(&cleaned.stdout).contains("removed BPF hooks of sockets"), "{cleaned:?}");
    assert_eq!(pins(&node), None);
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "silent");
}

#[test]
fn connections_are_counted_and_explained() {
    let node = running();
    for _ in 0..10 {
        drop(node.connect("pod-a3", WEB, Protocol::Tcp));
    }
    let total = |page: &str| {
        let lines = page.lines().filter(|line| line.starts_with("portolan_service_connections_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    until("all are counted", || total(&node.get("127.0.0.1:10249", "/metrics")) >= 10.0);
    let explained = node.query(&["explain", "--on-node", POD_A3, WEB]);
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(
        explained.status.success() && text.contains(&format!("hook connect4: entry frontends {WEB}/tcp")),
        "{text}"
    );
}

/// Counters of Services that come and go do not fill the map.
#[test]
fn the_counters_of_a_deleted_service_are_removed() {
    let node = running();
    drop(node.connect("pod-a3", WEB, Protocol::Tcp));
    let counters = || pinned(&node, "first_traffic").entries().unwrap().len();
    assert_eq!(counters(), 1);
    node.remove("web.yaml");
    until("they are removed", || node.get("127.0.0.1:10249", "/metrics").contains("200") && counters() == 0);
}

/// A full map costs the Service nothing but speed, and the number of its frontends is on /metrics until there is room.
#[test]
fn frontends_without_room_are_counted_and_served() {
    let mut node = Node::new();
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    node.start_with(&FLAGS);
    let map = pinned(&node, "frontends");
    let unaccelerated = |count: &str| {
        let page = node.get("127.0.0.1:10249", "/metrics");
        page.lines().any(|line| line.strip_prefix("portolan_unaccelerated_frontends ") == Some(count))
    };
    assert!(unaccelerated("0"));
    let foreign = fill(&map);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    until("it is counted", || unaccelerated("1"));
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1"]);
    map.delete_batch(foreign.iter().map(Vec::as_slice)).unwrap();
    node.nft("delete table ip portolan");
    until("there is room", || unaccelerated("0"));
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1"]);
}

/// Fills the map with entries of another process, and returns their keys.
fn fill(map: &Map) -> Vec<Vec<u8>> {
    let (length, value) = (map.info().key_size as usize, vec![0; map.info().value_size as usize]);
    let room = map.info().max_entries as usize - map.entries().unwrap().len();
    let key = |number: usize| [&number.to_ne_bytes()[..], &vec![255; length - 8]].concat();
    let keys: Vec<Vec<u8>> = (0..room).map(key).collect();
    map.update_batch(keys.iter().map(|key| (key.as_slice(), value.as_slice()))).unwrap();
    keys
}

#[test]
fn a_service_without_endpoints_is_refused_by_the_hook() {
    let node = running();
    node.write("web.yaml", &web(WEB_IP, &[]));
    until("it is refused", || node.answer("pod-a3", WEB, Protocol::Tcp) == "refused");
    assert!(node.get("127.0.0.1:10249", "/metrics").contains("reason=\"no-endpoints\""));
}

const DNS: &str = "10.96.0.53";
const DNS_NODE_PORT: &str = "192.168.50.1:30053";

fn dns(endpoints: &[&str]) -> String {
    let text = udp_service("dns", DNS, endpoints);
    text.replace("type: ClusterIP", "type: NodePort").replace("port: 80,", "port: 80, nodePort: 30053,")
}

/// The daemon may enter the network namespace of this pod.
fn with_namespace_of(node: &Node, pod: &str) -> String {
    let folder = node.path("namespaces");
    fs::create_dir(&folder).expect("the folder is writable");
    symlink(node.lab.host(pod).namespace_path(), folder.join(pod)).expect("the folder is writable");
    format!("--ebpf-netns-directory={}", folder.display())
}

#[test]
fn a_connected_socket_of_udp_is_translated_and_ended_when_its_endpoint_is_gone() {
    let mut node = Node::new();
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Udp);
    node.write("dns.yaml", &dns(&["10.244.1.2"]));
    let namespaces = with_namespace_of(&node, "pod-a3");
    node.start_with(&[FLAGS[0], FLAGS[1], &namespaces]);
    let connect = || node.connect("pod-a3", DNS_NODE_PORT, Protocol::Udp);
    until("the hook translates", || connect().answer().seen_source.to_string() == POD_A3);
    let (socket, of_cluster_ip) = (connect(), node.connect("pod-a3", "10.96.0.53:80", Protocol::Udp));
    let other = node.connect("pod-a2", DNS_NODE_PORT, Protocol::Udp);
    assert_ne!(other.answer().seen_source.to_string(), "10.244.1.3", "this namespace is not in the folder");
    node.write("dns.yaml", &dns(&["10.244.2.2"]));
    until("it is ended", || socket.exchange(b"again").is_err() && of_cluster_ip.exchange(b"again").is_err());
    until("it is logged", || node.log().contains("connected UDP sockets whose endpoint is gone"));
    assert_eq!(connect().answer().by, "pod-b1");
    until("the rules follow", || other.exchange(b"again").is_ok_and(|answer| answer.starts_with(b"pod-b1")));
}

/// An earlier daemon could end its sockets, and this one cannot.
#[test]
fn a_pod_whose_namespace_is_out_of_reach_after_a_restart_is_left_to_the_rules() {
    let mut node = Node::new();
    node.serve(&["10.244.1.2:8080"], Protocol::Udp);
    node.write("dns.yaml", &dns(&["10.244.1.2"]));
    let namespaces = with_namespace_of(&node, "pod-a3");
    node.start_with(&[FLAGS[0], FLAGS[1], &namespaces]);
    let is_hooked = |node: &Node| {
        let socket = node.connect("pod-a3", DNS_NODE_PORT, Protocol::Udp);
        socket.answer().seen_source.to_string() == POD_A3
    };
    until("the hook translates", || is_hooked(&node));
    node.stop();
    node.start_with(&[FLAGS[0], FLAGS[1], "--ebpf-netns-directory=/none"]);
    until("the rules translate", || !is_hooked(&node));
}

/// A service mesh matches the addresses of Services inside the pod.
#[test]
fn a_pod_with_a_redirect_of_its_own_is_left_to_the_rules() {
    let mut node = node_with_service();
    let pod = "pod-a3";
    let redirect =
        "table ip nat { chain OUTPUT { type nat hook output priority -100; tcp dport 9 redirect to :15001; }; }";
    node.lab.host(pod).command(&["nft", redirect]).expect("nft works");
    let namespaces = with_namespace_of(&node, pod);
    node.start_with(&[FLAGS[0], FLAGS[1], &namespaces]);
    until("the rules serve", || !is_hooked(&node));
    node.lab.host(pod).command(&["nft", "delete table ip nat"]).expect("nft works");
    until("the hook serves", || is_hooked(&node));
}

#[test]
fn hooks_for_the_node_alone_leave_pods_to_the_rules() {
    let mut node = node_with_service();
    node.start_with(&[FLAGS[0], FLAGS[1], "--ebpf-host-only"]);
    assert!(!is_hooked(&node));
    let query = |from: &str| node.query(&["explain", "--on-node", from, WEB]).stdout;
    let explain = |from: &str| String::from_utf8_lossy(&query(from)).into_owned();
    // The rules look the endpoint up in a map of theirs.
    let is_by_rules = |text: &str| text.contains("map endpoints:");
    let (node, pod) = (explain("192.168.50.1"), explain(POD_A3));
    assert!(node.contains("hook connect4: entry frontends") && !is_by_rules(&node), "{node}");
    assert!(pod.contains("pods pass on") && is_by_rules(&pod), "{pod}");
}

/// A resolver connects its socket once and uses it for hours.
#[test]
fn a_connected_socket_of_udp_is_served_after_its_endpoint_is_gone() {
    let mut node = Node::new();
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Udp);
    node.write("dns.yaml", &udp_service("dns", "10.96.0.53", &["10.244.1.2"]));
    node.start_with(&FLAGS);
    let socket = node.connect("pod-a3", "10.96.0.53:80", Protocol::Udp);
    assert_eq!(socket.answer().by, "pod-a1");
    node.write("dns.yaml", &udp_service("dns", "10.96.0.53", &["10.244.2.2"]));
    until("the other endpoint answers", || socket.exchange(b"again").is_ok_and(|answer| answer.starts_with(b"pod-b1")));
}

#[test]
fn without_the_capability_the_rules_serve_alone() {
    let mut node = running();
    assert!(is_hooked(&node));
    node.stop();
    node.start_without("-bpf,-sys_admin", &FLAGS);
    assert!(node.log().contains("running in mode nftables"), "{}", node.log());
    until("the hooks are gone", || !is_hooked(&node));
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1", "pod-b1"]);
}

/// The cgroup that the hooks belong at does not exist.
#[test]
fn hooks_that_cannot_be_attached_cost_no_service() {
    let node = node_with_service();
    let mut daemon = node.spawn(&["--proxy-mode=ebpf", "--nodeport-addresses=192.168.50.0/24", "--ebpf-cgroup=/none"]);
    until("the Service is served", || node.answers("pod-a3", WEB) == ["pod-a1", "pod-b1"]);
    until("the log has the reason", || node.log().contains("the rules serve without hooks: opening the cgroup /none"));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let _other = running();
    assert!(!folder_of(&node).exists(), "the daemon of another node removes the maps");
}

/// The folder of the pins of this node, named after the cookie of its network namespace.
fn folder_of(node: &Node) -> PathBuf {
    let cookie = node.lab.host("node-a").run(network_namespace_cookie).unwrap();
    PathBuf::from(format!("{PINS}/{cookie:x}"))
}

/// Some programs load without it, and others do not.
#[test]
fn without_perfmon_the_rules_serve_alone() {
    let mut node = node_with_service();
    node.start_without("-perfmon,-sys_admin", &FLAGS);
    let log = node.log();
    assert!(log.contains("needs the capabilities") && log.contains("running in mode nftables"), "{log}");
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1", "pod-b1"]);
}

#[test]
fn where_nothing_can_be_pinned_the_rules_serve_alone() {
    let mut node = node_with_service();
    let shell = "umount --lazy /sys/fs/bpf && exec setpriv --bounding-set=-sys_admin \"$0\" \"$@\"";
    node.start_after(shell, &FLAGS);
    let log = node.log();
    assert!(log.contains("mounting bpf at /sys/fs/bpf") && log.contains("running in mode nftables"), "{log}");
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1", "pod-b1"]);
}

#[test]
fn a_strict_mode_is_that_mode_or_none() {
    let node = node_with_service();
    let mut refused = node.spawn_without("-bpf,-sys_admin", &["--proxy-mode=ebpf", "--strict-mode"]);
    assert_eq!(refused.wait().unwrap().code(), Some(1));
    assert!(node.log().contains("mode ebpf is configured, --strict-mode allows no other"), "{}", node.log());
}

#[test]
fn a_mode_of_windows_nodes_is_refused_as_kube_proxy_refuses_it() {
    let node = node_with_service();
    let mut refused = node.spawn(&["--proxy-mode=kernelspace"]);
    assert_eq!(refused.wait().unwrap().code(), Some(1));
    assert!(node.log().contains("mode kernelspace is for windows nodes only, and this is linux"), "{}", node.log());
}

/// As the pods of `deploy/` have it.
#[test]
fn three_capabilities_and_a_read_only_cgroup_are_enough() {
    let mut node = node_with_service();
    let shell = "root=$(findmnt --noheadings --first-only --output TARGET --types cgroup2) \
                 && mount -o remount,bind,ro $root && ! mkdir $root/portolan-probe 2>/dev/null \
                 && exec setpriv --bounding-set=-all,+bpf,+net_admin,+perfmon \"$0\" \"$@\"";
    node.start_after(shell, &FLAGS);
    assert!(!node.log().contains("running in mode nftables"), "{}", node.log());
    until("a hook translates", || is_hooked(&node));
}
