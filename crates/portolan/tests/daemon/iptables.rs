//! iptables mode on a running node.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use portolan_testkit::{Protocol, topology};

use crate::node::{Node, WEB, WEB_IP, service, web};
use crate::poll::until;

const FLAGS: [&str; 4] = ["--proxy-mode=iptables", "--iptables-min-sync-period=0s", "--sync-period=300ms", "-v=4"];

/// Foreign rules, some of which use kube-proxy's names.
const OTHERS: &str = "*filter\n-A INPUT -p tcp -m tcp --dport 2222 -j ACCEPT\nCOMMIT\n\
    *nat\n:CNI-MARK - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n-A PREROUTING -p tcp -m tcp --dport 4444 -j CNI-MARK\n\
    -A CNI-MARK -j KUBE-MARK-MASQ\nCOMMIT\n";

pub(crate) fn command(node: &Node, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    node.lab.host(topology::NODE).command(&words).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn save(node: &Node) -> String {
    let text = command(node, "iptables-nft-save");
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn restore(node: &Node, text: &str) {
    let file = node.path("rules");
    fs::write(&file, text).unwrap();
    command(node, &format!("iptables-nft-restore --noflush {}", file.display()));
}

fn running(endpoints: &[&str]) -> Node {
    Node::serving_web(endpoints, &FLAGS)
}

#[test]
fn edits_are_followed_and_a_restart_writes_nothing() {
    let mut node = running(&["10.244.1.2"]);
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1"]);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2", "10.244.2.2"]));
    until("both endpoints answer", || node.answers("pod-a3", WEB) == ["pod-a1", "pod-b1"]);
    node.settle();
    let explained = node.query(&["explain", "10.244.1.4", WEB]);
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(
        explained.status.success() && text.contains("statistic --mode random --probability 0.50000000000"),
        "{text}"
    );
    node.stop();
    let before = node.generation();
    node.start_with(&FLAGS);
    assert_eq!(node.generation(), before);
    node.remove("web.yaml");
    until("the address is gone", || node.answer("node-a", WEB, Protocol::Tcp) == "silent");
    assert!(!save(&node).contains("KUBE-SEP-"), "{}", save(&node));
}

/// A daemon started from now on leaves a line for each listing of rules: the program and its flags.
fn note_listings(node: &mut Node) -> PathBuf {
    let (programs, listings) = (node.path("programs"), node.path("listings"));
    fs::create_dir_all(&programs).unwrap();
    let note = format!("echo ${{0##*/}} \"$@\" >> {}", listings.display());
    for name in ["iptables-nft-save", "ip6tables-nft-save"] {
        let program = programs.join(name);
        fs::write(&program, format!("#!/bin/sh\n{note}\nPATH=${{PATH#*:}}; exec {name} \"$@\"\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    node.programs = Some(programs);
    listings
}

/// Listing all rules takes a second with some thousand Services, and names are not answered meanwhile. Whether the programs work is
/// tried with the table mangle, which has few.
#[test]
fn a_restart_lists_all_rules_once() {
    let mut node = Node::serving_web(&["10.244.1.2"], &["--proxy-mode=iptables"]);
    node.stop();
    let listings = note_listings(&mut node);
    let mut daemon = node.spawn(&["--proxy-mode=iptables"]);
    until("it is ready again", || node.log().matches("ready: ").count() == 2);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let lines =
        ["iptables-nft-save -t mangle", "ip6tables-nft-save -t mangle", "iptables-nft-save", "ip6tables-nft-save"];
    assert_eq!(fs::read_to_string(listings).unwrap().lines().collect::<Vec<_>>(), lines);
}

#[test]
fn deleted_rules_are_repaired() {
    let node = running(&["10.244.1.2"]);
    let chain =
        save(&node).lines().find_map(|line| line.strip_prefix(":KUBE-SVC-").map(|it| it[..16].to_owned())).unwrap();
    let commands = [
        "iptables-nft -t nat -F KUBE-SERVICES".to_owned(),
        format!("iptables-nft -t nat -F KUBE-SVC-{chain}"),
        format!("iptables-nft -t nat -I KUBE-SVC-{chain} -j ACCEPT"),
        "iptables-nft -t nat -F PREROUTING".to_owned(),
        "iptables-nft -t nat -F".to_owned(),
        "iptables-nft -t filter -F".to_owned(),
        "iptables-nft -t mangle -X KUBE-PROXY-CANARY".to_owned(),
        "iptables-nft -t nat -A KUBE-SERVICES -p udp -j RETURN".to_owned(),
    ];
    for (count, line) in (1..).zip(&commands) {
        command(&node, line);
        until("the daemon has noticed", || node.log().matches(" repaired ").count() >= count);
        node.settle();
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1", "{line}");
    }
}

/// The value of a metric, by its name and labels.
fn metric(node: &Node, name: &str) -> f64 {
    let page = node.get("127.0.0.1:10249", "/metrics");
    let line =
        page.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{name}: {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn kube_proxys_counters_are_served() {
    let mut node = Node::new();
    let spec = service("web", WEB_IP, "type: NodePort", &["10.244.1.2"]);
    node.write("web.yaml", &spec.replace("{port: 80,", "{port: 80, nodePort: 30080,"));
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    node.start_with(&[FLAGS[0], FLAGS[1], "--nodeport-addresses=127.0.0.0/8"]);
    // Counters are read every few seconds at most, so all traffic is sent before the first read.
    let rules = save(&node).lines().filter(|line| line.starts_with("-A KUBE-NODEPORTS")).count();
    assert_eq!(rules, 2, "{}", save(&node));
    for _ in 0..5 {
        assert_eq!(node.answer("127.0.0.1", "127.0.0.1:30080", Protocol::Tcp), "pod-a1");
    }
    assert!((metric(&node, "kubeproxy_iptables_localhost_nodeports_accepted_packets_total") - 5.0).abs() < 0.5);
    assert!(metric(&node, "kubeproxy_iptables_ct_state_invalid_dropped_packets_total") < 0.5);
    let in_nat = save(&node).split("*nat").nth(1).unwrap().lines().filter(|line| line.starts_with("-A ")).count();
    let counted = metric(&node, "kubeproxy_sync_proxy_rules_iptables_total{ip_family=\"IPv4\",table=\"nat\"}");
    assert!((counted - in_nat as f64).abs() < 0.5, "{counted} and {in_nat}");
    assert!(node.query(&["verify"]).status.success());
}

#[test]
fn foreign_rules_stay_and_ours_can_be_removed() {
    let mut node = Node::new();
    restore(&node, OTHERS);
    let before = save(&node);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.start_with(&FLAGS);
    node.stop();
    let with_ours = save(&node);
    let foreign: Vec<&str> = before.lines().filter(|line| line.starts_with("-A")).collect();
    assert!(foreign.iter().all(|line| with_ours.contains(line)), "{with_ours}");
    let waiting = node.plainly(&["cleanup", "--after-kube-proxy"]);
    let reason = String::from_utf8_lossy(&waiting.stderr);
    assert!(!waiting.status.success() && reason.contains("Nothing was removed"), "{waiting:?}");
    assert_eq!(save(&node), with_ours);
    let cleanup = node.plainly(&["cleanup"]);
    assert!(cleanup.status.success(), "{cleanup:?}");
    let after = save(&node);
    assert!(foreign.iter().all(|line| after.contains(line)), "{after}");
    for gone in ["KUBE-SVC-", "KUBE-SEP-", "KUBE-CLUSTER-IPS", "-A PREROUTING -m comment"] {
        assert!(!after.contains(gone), "{after}");
    }
}

/// `portolan cleanup` beside a running daemon also deletes the counters that rules name.
#[test]
fn deleted_counters_are_repaired_with_the_rules() {
    let node = running(&["10.244.1.2"]);
    let has_counter = || save(&node).contains("--nfacct-name ct_state_invalid_dropped_pkts");
    let had_counter = has_counter();
    let output = node.query(&["cleanup"]);
    assert!(output.status.success(), "{output:?}");
    node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
    until("the change is in force", || node.answer("pod-a3", WEB, Protocol::Tcp) == "pod-b1");
    node.settle();
    assert_eq!(has_counter(), had_counter);
}
