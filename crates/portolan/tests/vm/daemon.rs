//! The daemon in ipvs mode: queries, repair, and changes to other modes and back under traffic.

use std::time::Duration;

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;
use portolan_testkit::{LongConnection, Protocol, Stream};

use crate::both_sides::check_both_sides;
use crate::carried::{check_counted, check_listed};
use crate::drift::{Damage, longest_repair};
use crate::hanging::{check_that_a_client_with_affinity_leaves_it, check_that_it_is_quarantined};
use crate::lab;
use crate::moving::check_that_few_clients_move;
use crate::node::{Node, service};
use crate::poll::until;
use crate::switching::{switch, write_mode};
use crate::world::socket;

const WEB: &str = "10.96.0.10:80";
const NODE_PORT: &str = "192.168.50.1:30080";
const PER_SECOND: u32 = 20;
/// Far above what a repair takes, also under emulation, and far below the sync period.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

fn of_this_system() -> impl Iterator<Item = &'static dyn Mode> {
    modes::ALL.iter().copied().filter(|mode| mode.system() == std::env::consts::OS)
}

/// From each other mode to one that needs the VM, and back. Changes among the others run on the host.
fn changes() -> Vec<&'static dyn Mode> {
    let (of_vm, of_host): (Vec<&dyn Mode>, Vec<&dyn Mode>) =
        of_this_system().partition(|mode| !mode.kernel_modules().is_empty());
    of_vm.iter().flat_map(|vm| of_host.iter().flat_map(move |host| [*host, *vm])).chain([of_host[0]]).collect()
}

const SCHEDULER: &str = "ipvs: {scheduler: lc}\n";

fn write_service(node: &Node, annotations: &str) {
    let text = service("web", "10.96.0.10", "type: NodePort", &["10.244.1.2", "10.244.2.2"]);
    let text = text.replace("{port: 80,", "{port: 80, nodePort: 30080,");
    node.write("web.yaml", &text.replace("{name: web}", &format!("{{name: web, annotations: {{{annotations}}}}}")));
}

fn shown(node: &Node, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    node.lab.host("node-a").command(&words).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_endpoint_that_hangs_gets_no_new_connections() {
    let _alone = lab();
    let of_vm = modes::ALL.iter().copied().filter(|mode| !mode.kernel_modules().is_empty());
    of_vm.for_each(check_that_it_is_quarantined);
}

#[test]
fn a_client_with_session_affinity_leaves_an_endpoint_that_hangs() {
    let _alone = lab();
    let of_vm = modes::ALL.iter().copied().filter(|mode| !mode.kernel_modules().is_empty());
    of_vm.for_each(check_that_a_client_with_affinity_leaves_it);
}

#[test]
fn connections_of_a_removed_endpoint_are_reset_on_both_sides() {
    let _alone = lab();
    let of_vm = modes::ALL.iter().copied().filter(|mode| !mode.kernel_modules().is_empty());
    of_vm.for_each(check_both_sides);
}

#[test]
fn connections_are_listed_and_counted() {
    let _alone = lab();
    for mode in modes::ALL.iter().copied().filter(|mode| !mode.kernel_modules().is_empty()) {
        check_listed(mode);
        check_counted(mode);
    }
}

#[test]
fn the_mode_changes_to_ipvs_and_back_without_a_failed_connection() {
    // No other test runs meanwhile: on a CPU that stalls between two hooks, a packet can see half of each mode.
    let _alone = lab();
    let mut node = Node::new();
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    write_service(&node, "");
    let changes = changes();
    write_mode(&node, changes[0], SCHEDULER);
    let file = node.path("config.conf").display().to_string();
    node.start_with(&["--config", &file]);
    let stream = |from, to: &str| Stream { from, to: socket(to) };
    let load = node.lab.load(&[stream("pod-a3", WEB), stream("client", NODE_PORT), stream("node-a", WEB)], PER_SECOND);
    let mut lasting: Vec<LongConnection> = Vec::new();
    for mode in &changes[1..] {
        lasting
            .extend([("pod-a3", WEB), ("client", NODE_PORT)].map(|(from, to)| node.connect(from, to, Protocol::Tcp)));
        let before = load.opened();
        switch(&node, *mode, SCHEDULER);
        until("connections are made", || load.opened() > before + 20);
        let lives = |connection: &LongConnection| connection.exchange(b"hello").is_ok_and(|it| it == b"hello");
        assert!(lasting.iter().all(lives), "connections from before the change to {} live", mode.name());
    }
    let tally = load.stop();
    println!("mode changes: {} connections, {} failed", tally.connections, tally.failures.len());
    assert_eq!(tally.failures, Vec::<String>::new());
    drop(lasting);
}

/// Packets from IPVS to an endpoint pass the output hook, although they were not sent by the node.
fn check_firewall(node: &Node) {
    node.nft("add table ip fw");
    node.nft("add chain ip fw out { type filter hook output priority filter ; }");
    node.nft("add rule ip fw out ip saddr 10.244.1.4 tcp dport 8080 drop");
    let answer = node.query(&["explain", "10.244.1.4", WEB]);
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert_eq!(answer.status.code(), Some(1), "{text}");
    assert!(
        text.contains("table ip fw, chain out, handle") && text.contains("ip saddr 10.244.1.4 tcp dport 8080 drop"),
        "{text}"
    );
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "silent");
    node.nft("delete table ip fw");
}

#[test]
fn the_daemon_answers_and_repairs_in_ipvs_mode() {
    let _alone = lab();
    let mut node = Node::new();
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    write_service(&node, "");
    node.start_with(&["--proxy-mode", "ipvs", "--ipvs-scheduler", "lc", "--sync-period", "1s"]);
    assert!(node.log().contains("Using ipvs Proxier."), "{}", node.log());
    assert!(shown(&node, "ipvsadm -ln").contains(&format!("TCP  {WEB} lc")));
    let answer = node.query(&["explain", "10.244.1.4", WEB]);
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.status.success() && text.contains("virtual server TCP 10.96.0.10:80"), "{text}");
    check_firewall(&node);

    write_service(&node, "portolan.io/scheduler: sh");
    until("the Service has its own scheduler", || shown(&node, "ipvsadm -ln").contains(&format!("TCP  {WEB} sh")));
    shown(&node, "ipvsadm -D -t 10.96.0.10:80");
    shown(&node, "ipset flush KUBE-CLUSTER-IP");
    shown(&node, "ip address del 10.96.0.10/32 dev kube-ipvs0");
    until("deleted objects are repaired", || {
        shown(&node, "ipvsadm -ln").contains(&format!("TCP  {WEB} sh"))
            && shown(&node, "ip address show kube-ipvs0").contains("10.96.0.10/32")
            && shown(&node, "ipset list KUBE-CLUSTER-IP").contains("10.96.0.10,tcp:80")
    });
    assert_eq!(node.answer("client", NODE_PORT, Protocol::Tcp), node.answer("client", NODE_PORT, Protocol::Tcp));
}

/// The sync period is an hour: only the watch can notice.
#[test]
fn ipvs_mode_repairs_while_endpoints_change() {
    let _alone = lab();
    let mut node = Node::new();
    write_service(&node, "");
    node.start_with(&["--proxy-mode", "ipvs", "--sync-period", "1h"]);
    let damages = [
        Damage { command: "ipvsadm -C", look: "ipvsadm -ln", intact: WEB },
        Damage {
            command: "ipset flush KUBE-CLUSTER-IP",
            look: "ipset list KUBE-CLUSTER-IP",
            intact: "10.96.0.10,tcp:80",
        },
        Damage {
            command: "iptables -t nat -F PREROUTING",
            look: "iptables -t nat -S PREROUTING",
            intact: "KUBE-SERVICES",
        },
        Damage {
            command: "ip address del 10.96.0.10/32 dev kube-ipvs0",
            look: "ip address show kube-ipvs0",
            intact: "10.96.0.10/32",
        },
        Damage {
            command: "ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.2:8080",
            look: "ipvsadm -ln -t 10.96.0.10:80",
            intact: "10.244.1.2:8080",
        },
    ];
    let longest = longest_repair(&node, "ipvs", &damages);
    assert!(longest < NOTICED_WITHIN, "repaired only after {longest:?}");
    node.settle();
    let noticed = node.log().matches("comparing with the plan").count();
    write_service(&node, "portolan.io/scheduler: sh");
    until("a change of our own is made", || shown(&node, "ipvsadm -ln").contains(&format!("TCP  {WEB} sh")));
    assert_eq!(node.log().matches("comparing with the plan").count(), noticed, "own changes are not foreign");
}

#[test]
fn a_missing_scheduler_stops_the_start() {
    let node = Node::new();
    let answer = node.plainly(&["proxy", "--manifests", "/tmp", "--proxy-mode", "ipvs", "--ipvs-scheduler", "guess"]);
    let text = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(!answer.status.success() && text.contains("it offers dh, fo, lblc"), "{text}");
}

/// Beside the default mode in the same run: the kernel's own Maglev scheduler (`mh`). `--nocapture` prints how many.
#[test]
fn few_clients_move_when_an_endpoint_leaves_a_maglev_table() {
    let is_of_vm = |mode: &&&dyn Mode| !mode.kernel_modules().is_empty();
    for mode in modes::ALL.iter().filter(is_of_vm).chain([&modes::default()]) {
        check_that_few_clients_move(*mode);
    }
}
