//! Foreign changes to our tables.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::drift::{Damage, longest_repair, under_churn};
use crate::iptables::command;
use crate::life::some_chain;
use crate::node::{Node, WEB, WEB_IP, service, web};
use crate::poll::until;
use portolan_testkit::Protocol;
use rustix::process::Signal;

/// Far above what a repair takes, and far below the sync period: a loaded machine must not fail the test.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);
/// Without notification, nothing would be repaired for an hour.
pub(crate) const SELDOM: [&str; 2] = ["--iptables-sync-period=1h", "--iptables-min-sync-period=1s"];

#[test]
fn changes_by_others_are_undone() {
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    let chain = some_chain(&node);
    let changes = [
        "delete table ip portolan".to_owned(),
        "delete table ip6 portolan".to_owned(),
        format!("flush chain ip portolan {chain}"),
        format!("add rule ip portolan {chain} drop"),
        "add element ip portolan cluster-ips { 10.96.9.9 }".to_owned(),
        format!("delete element ip portolan cluster-ips {{ {WEB_IP} }}"),
        "flush map ip portolan endpoints".to_owned(),
        "add chain ip portolan intruder".to_owned(),
    ];
    for (count, change) in (1..).zip(&changes) {
        node.nft(change);
        let elapsed = until("the daemon has noticed", || node.log().matches(" repaired ").count() >= count);
        node.settle();
        println!("nft {change}: repaired after {elapsed:?}");
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1", "nft {change}");
    }
}

#[test]
fn foreign_objects_are_left_alone() {
    let node = Node::new();
    node.nft("add table ip foreign");
    node.nft("add chain ip foreign portolan");
    node.nft("add table inet portolan-too");
    let before = node.nft("list ruleset");
    let mut node = node;
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.start();
    node.stop();
    let cleanup = node.plainly(&["cleanup"]);
    assert!(cleanup.status.success());
    assert_eq!(String::from_utf8_lossy(&cleanup.stdout), "removed table ip portolan\nremoved table ip6 portolan\n");
    assert_eq!(node.nft("list ruleset"), before);
    let again = node.plainly(&["cleanup"]);
    assert!(again.status.success() && String::from_utf8_lossy(&again.stdout).contains("nothing"));
}

/// A node with the Service `web` whose variant of iptables is the one where kubelet's hint is.
fn with_variant(variant: &str, flags: &[&str]) -> Node {
    let mut node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    command(&node, &format!("iptables-{variant} -t mangle -N KUBE-IPTABLES-HINT"));
    node.start_with(flags);
    node
}

/// `SERVICES=2000` measures repairs among so many others.
fn add_services(node: &Node) {
    if let Some(count) = std::env::var("SERVICES").ok().and_then(|count| count.parse().ok()) {
        node.write("many.yaml", &many_services(count));
        until("the Services are programmed", || node.log().contains(&format!(" objects of {count} Service ports")));
        node.settle();
    }
}

fn check_tables(mode: &str, variant: &str, service_chain: &str) {
    let flag = format!("--proxy-mode={mode}");
    let node = with_variant(variant, &[&[flag.as_str()], &SELDOM[..]].concat());
    add_services(&node);
    let program = |words: &str| format!("iptables-{variant} -t nat {words}");
    let (flush, jumps) = (program("-F PREROUTING"), program("-S PREROUTING"));
    let (flush_services, services) = (program(&format!("-F {service_chain}")), program(&format!("-S {service_chain}")));
    let damages = [
        Damage { command: &flush, look: &jumps, intact: &format!("-j {service_chain}") },
        Damage { command: &flush_services, look: &services, intact: WEB_IP },
    ];
    let longest = longest_repair(&node, &format!("{mode}, {variant} variant"), &damages);
    assert!(longest < NOTICED_WITHIN, "repaired only after {longest:?}");
    node.settle();
}

#[test]
fn nftables_mode_repairs_while_endpoints_change() {
    let node = Node::serving_web(&["10.244.1.2"], &SELDOM[..1]);
    let look = format!("nft get element ip portolan cluster-ips {{ {WEB_IP} }}");
    let chain = some_chain(&node);
    let (flush, rules) =
        (format!("nft flush chain ip portolan {chain}"), format!("nft list chain ip portolan {chain}"));
    let intact = node.nft(&format!("list chain ip portolan {chain}"));
    let damages = [
        Damage { command: "nft delete table ip portolan", look: &look, intact: WEB_IP },
        Damage { command: &flush, look: &rules, intact: &intact },
    ];
    let longest = longest_repair(&node, "nftables", &damages);
    assert!(longest < NOTICED_WITHIN, "repaired only after {longest:?}");
}

#[test]
fn iptables_mode_repairs_tables_of_nf_tables_while_endpoints_change() {
    check_tables("iptables", "nft", "KUBE-SERVICES");
}

#[test]
fn iptables_mode_repairs_legacy_tables_while_endpoints_change() {
    check_tables("iptables", "legacy", "KUBE-SERVICES");
}

#[test]
fn userspace_mode_repairs_while_endpoints_change() {
    check_tables("userspace", "nft", "KUBE-PORTALS-CONTAINER");
    check_tables("userspace", "legacy", "KUBE-PORTALS-CONTAINER");
}

/// A rule in the place of another leaves all counts as they are: only the comparison of every sync period finds it.
#[test]
fn the_full_comparison_is_due_every_sync_period_while_endpoints_change() {
    let node = with_variant("legacy", &["--proxy-mode=iptables", "--iptables-sync-period=1s"]);
    let jumps = || command(&node, "iptables-legacy -t nat -S PREROUTING");
    under_churn(&node, || {
        for _ in 0..2 {
            until("the jump exists", || jumps().contains("-j KUBE-SERVICES"));
            command(&node, "iptables-legacy -t nat -R PREROUTING 1 -p udp -j RETURN");
            until("the jump is back", || jumps().contains("-j KUBE-SERVICES"));
        }
    });
}

/// The kernel describes one foreign commit in many notifications, which arrive before, while and after the rules are read.
#[test]
fn one_foreign_change_is_compared_and_logged_once() {
    for (mode, variant, flush) in [
        ("iptables", "nft", "iptables-nft -t nat -F KUBE-SERVICES"),
        ("iptables", "legacy", "iptables-legacy -t nat -F KUBE-SERVICES"),
        ("nftables", "nft", "nft delete table ip portolan"),
    ] {
        let mut node = Node::new();
        command(&node, &format!("iptables-{variant} -t mangle -N KUBE-IPTABLES-HINT"));
        node.write("many.yaml", &many_services(SOME));
        let mode_flag = format!("--proxy-mode={mode}");
        node.start_with(&[&mode_flag, SELDOM[0], "--iptables-min-sync-period=0s"]);
        let noted = |text: &str| node.log().matches(text).count();
        // The first sync after the start of the watch may find the first one.
        let mut noticed = 0;
        for count in 1..=3 {
            command(&node, flush);
            until("it is repaired", || noted(" repaired ") >= count);
            // Notifications that are still on their way arrive before those of later changes.
            for endpoint in 1..=4 {
                let before = noted("] wrote ");
                node.write("web.yaml", &web(WEB_IP, &[&format!("10.244.3.{endpoint}")]));
                until("the change is written", || noted("] wrote ") > before);
            }
            assert_eq!(noted(" repaired "), count, "{mode}, {variant}");
            noticed = if count == 1 { noted("comparing with the plan") } else { noticed + 1 };
            assert_eq!(noted("comparing with the plan"), noticed, "{mode}, {variant}");
        }
    }
}

/// So many that the rules of one chain do not fit into one notification.
const SOME: usize = 300;

pub(crate) fn many_services(count: usize) -> String {
    let one = |number: usize| {
        service(&format!("s{number}"), &many_address(number), "type: ClusterIP", &["10.244.1.2", "10.244.2.2"])
    };
    (0..count).map(one).collect::<Vec<String>>().join("---\n")
}

/// The cluster IP of one of them.
pub(crate) fn many_address(number: usize) -> String {
    format!("10.96.{}.{}", 1 + number / 200, 1 + number % 200)
}

/// The program that reads all rules fails from now on: a repair does without it, because the kernel has named the chains.
#[test]
fn a_repair_reads_only_the_chains_that_changed() {
    let mut node = Node::new();
    let is_broken = node.path("is-broken");
    node.programs = Some(breakable(&node, "iptables-nft-save", &is_broken));
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    command(&node, "iptables-nft -t mangle -N KUBE-IPTABLES-HINT");
    node.start_with(&[&["--proxy-mode=iptables"], &SELDOM[..]].concat());
    // The first sync after the start of the watch may read everything.
    command(&node, "iptables-nft -t nat -F KUBE-SERVICES");
    until("it is repaired", || node.log().contains(" repaired "));
    node.settle();
    fs::write(&is_broken, "").unwrap();
    let nat_rules = || command(&node, "iptables-nft -t nat -S");
    let before = nat_rules();
    let chain = before.lines().find_map(|line| line.strip_prefix("-N KUBE-SVC-")).expect("web has a chain");
    for (count, (damage, repaired)) in (2..).zip([
        ("-F KUBE-SERVICES".to_owned(), 2),
        ("-F PREROUTING".to_owned(), 1),
        (format!("-A KUBE-SVC-{chain} -j RETURN"), 1),
        ("-D OUTPUT 1".to_owned(), 1),
    ]) {
        command(&node, &format!("iptables-nft -t nat {damage}"));
        until("it is repaired", || node.log().matches(" repaired ").count() >= count);
        assert!(
            node.log()
                .lines()
                .rfind(|line| line.contains(" repaired "))
                .unwrap()
                .contains(&format!(" repaired {repaired} ")),
            "{damage}"
        );
        assert_eq!(nat_rules(), before, "{damage}");
        assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1", "{damage}");
    }
    assert!(!node.log().contains("retrying"));
}

/// A folder with this program, which fails as soon as the file exists.
fn breakable(node: &Node, name: &str, file: &Path) -> PathBuf {
    let folder = node.path("programs");
    fs::create_dir(&folder).unwrap();
    let real = command(node, &format!("which {name}"));
    let script = format!("#!/bin/sh\n[ -e {} ] && exit 1\nexec {} \"$@\"\n", file.display(), real.trim());
    fs::write(folder.join(name), script).unwrap();
    fs::set_permissions(folder.join(name), Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Notifications of our own commits, and of commits to foreign chains, cost nothing.
#[test]
fn own_and_unrelated_changes_cause_no_comparison() {
    for variant in ["nft", "legacy"] {
        let flags = [&["--proxy-mode=iptables", "-v=4"], &SELDOM[..1], &["--iptables-min-sync-period=0s"]].concat();
        let node = with_variant(variant, &flags);
        for round in 1..=20 {
            node.write("web.yaml", &web(WEB_IP, &["10.244.1.2", &format!("10.244.3.{round}")]));
            node.settle();
        }
        if variant == "nft" {
            command(&node, "iptables-nft -t nat -N CNI-OWN");
            command(&node, "iptables-nft -t nat -A CNI-OWN -j RETURN");
            command(&node, "iptables-nft -t nat -I PREROUTING -j CNI-OWN");
            command(&node, "iptables-nft -t nat -F CNI-OWN");
        }
        until("a change of our own rules is noticed", || {
            command(&node, &format!("iptables-{variant} -t nat -F KUBE-SERVICES"));
            node.log().contains(" repaired ")
        });
        let log = node.log();
        let first = log.lines().find(|line| line.contains("comparing with the plan")).expect("it was noticed");
        assert!(!first.contains("CNI"), "{first}");
        let before: usize = log.split(" repaired ").next().map_or(0, |text| text.matches("comparing with").count());
        assert!(before <= 2, "{variant}: only the flush is noticed\n{log}");
    }
}

/// The filter table refuses ports that a Service does not have. It must not refuse the others while they are not translated:
/// clients retransmit, and get an answer after the repair.
#[test]
fn nothing_is_refused_while_the_rules_of_services_are_missing() {
    for variant in ["nft", "legacy"] {
        let node = with_variant(variant, &["--proxy-mode=iptables"]);
        let refused = WEB.replace(":80", ":81");
        for from in ["pod-a3", "node-a"] {
            assert_eq!(node.answer(from, &refused, Protocol::Tcp), "refused", "{variant}, from {from}");
        }
        node.signal(Signal::STOP);
        command(&node, &format!("iptables-{variant} -t nat -F KUBE-SERVICES"));
        for from in ["pod-a3", "node-a"] {
            let answer = node.answer_within(from, WEB, Protocol::Tcp, Duration::from_millis(300));
            assert_eq!(answer, "silent", "{variant}, from {from}");
        }
        node.signal(Signal::CONT);
        node.settle();
    }
}

/// Translation is decided by the first packet of a connection, and each retransmission belongs to the same tracked flow.
#[test]
fn a_connection_that_began_without_rules_succeeds_after_the_repair() {
    for (mode, variant, damage) in [
        ("nftables", "nft", "nft delete table ip portolan"),
        ("iptables", "nft", "iptables-nft -t nat -F KUBE-SERVICES"),
        ("iptables", "legacy", "iptables-legacy -t nat -F KUBE-SERVICES"),
    ] {
        let node = with_variant(variant, &[&format!("--proxy-mode={mode}")]);
        node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
        keep_connection_tracking(&node);
        until("the daemon is ready", || node.log().contains("ready: "));
        node.signal(Signal::STOP);
        command(&node, damage);
        std::thread::scope(|scope| {
            let from_pod = scope.spawn(|| node.answer_within("pod-a3", WEB, Protocol::Tcp, RETRANSMITTED_WITHIN));
            until("the first packet is tracked", || is_tracked(&node) || from_pod.is_finished());
            node.signal(Signal::CONT);
            assert_eq!(from_pod.join().unwrap(), "pod-a1", "{mode}, {variant}");
        });
    }
}

/// Clients retransmit after 1, 3, 7 and 15 seconds.
const RETRANSMITTED_WITHIN: Duration = Duration::from_secs(20);

/// The kernel tracks connections only while rules need it. On a node, those of the network plugin do.
fn keep_connection_tracking(node: &Node) {
    node.nft("add table ip plugin");
    node.nft("add chain ip plugin forward { type filter hook forward priority filter ; }");
    node.nft("add rule ip plugin forward ct state established accept");
}

fn is_tracked(node: &Node) -> bool {
    command(node, &format!("conntrack -L -p tcp --orig-dst {WEB_IP}")).contains("SYN_SENT")
}
