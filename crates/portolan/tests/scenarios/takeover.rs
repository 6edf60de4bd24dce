//! Takeover from kube-proxy and rollback: its recorded rules on the lab's node, ours beside them, its rules removed,
//! and back, with connections open all the time.

use std::net::SocketAddr;
use std::time::Duration;

use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::{ModeSettings, Reconciler, Trust, modes, peers};
use portolan_testkit::{Lab, LongConnection, Protocol, Scenario, Source, topology};

use crate::support::Session;

const SCENARIO: &str = "dual-stack-every-frontend";

/// Foreign rules that resemble kube-proxy's: kubelet's, those of a CNI plugin that uses kube-proxy's mark, and
/// unrelated ones.
const OTHERS: &str = "\
*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -p tcp -m comment --comment \"not -j KUBE-SERVICES\" -m tcp --dport 2222 -j KUBE-ROUTER-INPUT
-A FORWARD -s 198.18.0.0/15 -j ACCEPT
-A KUBE-ROUTER-INPUT -j RETURN
COMMIT
*nat
:CNI-HOSTPORT-SETMARK - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -p tcp -m tcp --dport 4444 -j CNI-HOSTPORT-SETMARK
-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
";
const OTHERS_NFTABLES: &str = "table inet firewall {\n\tchain kube-proxy {\n\t\ttcp dport 22 accept\n\t}\n}\n";

/// How kube-proxy's rules get into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nftables,
    Iptables(&'static str),
}

struct Node {
    lab: Lab,
    kind: Kind,
    session: Session,
    scenario: Scenario,
}

impl Node {
    fn new(kind: Kind) -> Self {
        let scenario =
            Scenario::load(crate::support::folder().join(format!("{SCENARIO}.txt"))).expect("the scenario is there");
        let mut session = Session::new(&scenario);
        let objects = &scenario.steps.last().expect("a scenario has a step").objects;
        session.step(SCENARIO, objects);
        Node { lab: Lab::new().expect("root is needed for the lab"), kind, session, scenario }
    }

    fn feed(&self, words: &[&str], text: &str) {
        self.lab.host(topology::NODE).command_with_input(words, text).expect("the rules can be loaded");
    }

    fn restore(&self, variant: &str, text: &str, text6: &str) {
        for (base, text) in [("iptables", text), ("ip6tables", text6)] {
            self.feed(&[&format!("{base}-{variant}-restore"), "--noflush"], text);
        }
    }

    fn load_others(&self) {
        let text6 = OTHERS.replace("198.18.0.0/15", "2001:db8:18::/64");
        ["nft", "legacy"].iter().for_each(|variant| self.restore(variant, OTHERS, &text6));
        self.feed(&["nft", "-f", "-"], OTHERS_NFTABLES);
    }

    /// kube-proxy's rules for the scenario. Counting dropped packets needs an object that a rule cannot create.
    fn load_kube_proxy(&self) {
        match self.kind {
            Kind::Nftables => self.feed(&["nft", "-f", "-"], &recorded("nftables")),
            Kind::Iptables(variant) => {
                let text = without_counters(&recorded("iptables"));
                let (text, text6) = text.split_once("# ip6tables-save").expect("both families are recorded");
                self.restore(variant, text, text6);
            }
        }
    }

    /// Everything but the portolan tables, for comparison.
    fn foreign_rules(&self) -> String {
        let node = self.lab.host(topology::NODE);
        let commands = ["iptables-nft-save", "ip6tables-nft-save", "iptables-legacy-save", "ip6tables-legacy-save"];
        let mut text: String = commands.iter().map(|command| node.command(&[command]).expect("it runs")).collect();
        text += &node.command(&["nft", "list", "table", "inet", "firewall"]).expect("the table is there");
        let is_rule = |line: &&str| !line.starts_with('#');
        text.lines().filter(is_rule).map(|line| line.split(" [").next().unwrap_or(line).to_owned() + "\n").collect()
    }

    fn sync(&self) {
        self.lab.host(topology::NODE).run(|| {
            let kernel = NftablesKernel::open().expect("netlink opens");
            let mut reconciler = Reconciler::new(Nftables::new(14), kernel);
            reconciler.sync(&self.session.plan, Trust::Memory).expect("the plan can be programmed");
        });
    }

    fn remove_kube_proxy(&self) -> peers::Report {
        self.lab.host(topology::NODE).run(|| {
            let active = modes::default().open(&ModeSettings::default()).expect("the mode can be opened");
            let detection = peers::detect();
            assert!(detection.errors.is_empty(), "{:?}", detection.errors);
            assert!(detection.peers.iter().any(|peer| peer.found.has_services), "{:?}", detection.peers);
            let mut takeover = peers::Takeover::new(active.owned());
            let report = takeover.step().expect("there is a report");
            assert!(takeover.is_done() && takeover.step().is_none(), "{report}");
            report
        })
    }

    fn is_clean(&self) -> bool {
        self.lab.host(topology::NODE).run(|| peers::detect().peers.is_empty())
    }

    fn kube_proxy_serves(&self) -> bool {
        self.lab.host(topology::NODE).run(|| peers::kube_proxy_serves_what_we_serve().expect("it can be read"))
    }

    /// Connections from a pod and from outside, in both families.
    fn connections(&self) -> Vec<LongConnection> {
        let open = |(host, destination): (&str, &str)| {
            let destination: SocketAddr = destination.parse().expect("an address and port");
            let addresses = topology::by_name(host).expect("a host of the lab");
            let address = addresses.address_toward(destination.ip());
            let source = Source { name: Some(host.into()), address, interface: None };
            let opened = self.lab.open_connection(&source, destination, Protocol::Tcp, Duration::from_secs(5));
            opened.unwrap_or_else(|error| panic!("{host} -> {destination}: {error}"))
        };
        let wanted = [
            ("pod-a2", "10.96.0.10:80"),
            ("pod-a2", "[fd00:10:96::10]:80"),
            ("client", "198.51.100.10:80"),
            ("client", "[2001:db8:51::20]:80"),
            ("client", "192.168.50.1:30080"),
            ("node-a", "10.96.0.10:80"),
        ];
        wanted.into_iter().map(open).collect()
    }

    fn packets_arrive(&self) {
        let packets = &self.scenario.steps.last().expect("a scenario has a step").packets;
        self.lab.verify_all(packets).unwrap_or_else(|failure| panic!("{:?}: {failure}", self.kind));
    }
}

fn recorded(mode: &str) -> String {
    let folder = crate::support::folder().join("../crates/shadow/tests/recorded");
    std::fs::read_to_string(folder.join(format!("{SCENARIO}.{mode}.txt"))).expect("the recording is there")
}

fn without_counters(text: &str) -> String {
    let without = |line: &str| match line.split_once(" -m nfacct --nfacct-name ") {
        Some((before, rest)) => {
            let after = rest.trim_start().split_once(' ').map_or("", |(_, after)| after);
            format!("{before} {after}\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(without).collect()
}

fn still_work(connections: &[LongConnection], when: &str) {
    for connection in connections {
        let reply = connection.exchange(when.as_bytes());
        assert_eq!(reply.expect(when), when.as_bytes(), "{when}: {:?}", connection.answer());
    }
}

fn there_and_back(kind: Kind) {
    let node = Node::new(kind);
    node.load_others();
    let before = node.foreign_rules();
    node.load_kube_proxy();
    node.packets_arrive();
    let through_kube_proxy = node.connections();

    node.sync();
    still_work(&through_kube_proxy, "both are programmed");
    let report = node.remove_kube_proxy();
    assert!(report.is_complete(), "{report}");
    assert!(node.is_clean(), "{kind:?}: something of kube-proxy's is left");
    still_work(&through_kube_proxy, "kube-proxy's rules are gone");
    node.packets_arrive();
    let through_us = node.connections();
    same_but_for_kept(&before, &node.foreign_rules(), kind);
    assert!(!node.kube_proxy_serves(), "nothing of kube-proxy's is there");

    node.load_kube_proxy();
    assert!(node.kube_proxy_serves(), "{kind:?}: kube-proxy serves both families again");
    assert!(node.lab.host(topology::NODE).run(peers::cleanup_own).is_complete(), "our tables can be removed");
    still_work(&through_us, "our rules are gone");
    still_work(&through_kube_proxy, "our rules are gone, for older connections");
    node.packets_arrive();
}

/// iptables mode itself creates kubelet's chain KUBE-FIREWALL and hooks it in again; its own cleanup leaves that, too.
fn same_but_for_kept(before: &str, after: &str, kind: Kind) {
    let missing: Vec<&str> = before.lines().filter(|line| !after.contains(line)).collect();
    assert!(missing.is_empty(), "{kind:?}: foreign rules are gone: {missing:#?}");
    let is_new = |line: &&str| !before.lines().any(|it| it == *line) && !line.contains("KUBE-FIREWALL");
    let new: Vec<&str> = after.lines().filter(is_new).collect();
    let allowed = [":INPUT ACCEPT", ":POSTROUTING ACCEPT", ":OUTPUT ACCEPT", ":PREROUTING ACCEPT", ":FORWARD ACCEPT"];
    let unexpected: Vec<&&str> = new.iter().filter(|line| !allowed.contains(line)).collect();
    assert!(unexpected.is_empty(), "{kind:?}: left behind: {unexpected:#?}");
}

#[test]
fn from_nftables_mode_and_back() {
    there_and_back(Kind::Nftables);
}

#[test]
fn from_iptables_mode_and_back() {
    there_and_back(Kind::Iptables("nft"));
}

#[test]
fn from_legacy_iptables_and_back() {
    there_and_back(Kind::Iptables("legacy"));
}

#[test]
fn cleanup_removes_everything_of_every_proxy() {
    let node = Node::new(Kind::Iptables("nft"));
    node.load_kube_proxy();
    node.feed(&["nft", "-f", "-"], &recorded("nftables"));
    node.feed(&["ipset", "create", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "hash:ip,port", "family", "inet6"], "");
    node.feed(&["ipset", "create", "KUBE-FOREIGN", "hash:ip"], "");
    node.sync();
    let report = node.lab.host(topology::NODE).run(peers::cleanup_everything);
    assert!(report.is_complete(), "{report}");
    assert!(node.is_clean());
    let left = node.lab.host(topology::NODE).command(&["nft", "list", "tables"]).expect("nft runs");
    assert!(!left.contains("kube-proxy") && !left.contains("portolan"), "{left}");
    let sets = node.lab.host(topology::NODE).command(&["ipset", "list", "-n"]).expect("ipset runs");
    assert_eq!(sets.trim(), "KUBE-FOREIGN");
}
