//! DNS beside the rules: `portolan proxy --dns`.

use std::net::UdpSocket;
use std::time::Duration;

use portolan_testkit::{Protocol, topology};

use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;

const DNS: &str = "169.254.20.10";

fn serving_names(manifests: &[(&str, &str)]) -> Node {
    let mut node = Node::new();
    manifests.iter().for_each(|(name, text)| node.write(name, text));
    node.start_with(&["--dns", DNS]);
    node
}

/// The answer to a client on that host, by `dig`.
fn dig(node: &Node, host: &str, words: &str) -> String {
    let server = format!("@{DNS}");
    let words: Vec<&str> =
        ["dig", &server, "+short", "+tries=1", "+time=5"].into_iter().chain(words.split(' ')).collect();
    let answer = node.lab.host(host).command(&words);
    answer.unwrap_or_else(|error| error.to_string()).trim().to_owned()
}

#[test]
fn a_pod_finds_a_service_by_name_and_reaches_it() {
    let node = serving_names(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    assert_eq!(dig(&node, "pod-a3", "web.default.svc.cluster.local"), WEB_IP);
    assert_eq!(dig(&node, "pod-a3", "+tcp web.default.svc.cluster.local"), WEB_IP);
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
    let variables = node.query(&["env", "--namespace", "default"]);
    assert!(String::from_utf8_lossy(&variables.stdout).contains("WEB_SERVICE_HOST=10.96.0.80\n"));
}

fn write_config(node: &Node, text: &str) {
    std::fs::write(node.path("dns.draft"), text).unwrap();
    std::fs::rename(node.path("dns.draft"), node.path("dns.conf")).unwrap();
}

#[test]
fn the_configuration_of_dns_changes_without_a_restart() {
    let mut node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    write_config(&node, "upstreams: [none]\n");
    let path = node.path("dns.conf").display().to_string();
    node.start_with(&["--dns", DNS, "--dns-config", &path]);
    assert_eq!(dig(&node, "pod-a3", "web.default.svc.cluster.local"), WEB_IP);
    write_config(&node, "upstreams: [none]\nclusterDomains: [example.internal]\n");
    until("the new zone is served", || dig(&node, "pod-a3", "web.default.svc.example.internal") == WEB_IP);
    assert_eq!(dig(&node, "pod-a3", "web.default.svc.cluster.local"), "");
    write_config(&node, "upstreams: [nowhere]\n");
    until("the mistake is logged", || node.log().contains("nowhere"));
    assert_eq!(dig(&node, "pod-a3", "web.default.svc.example.internal"), WEB_IP);
}

/// Rules are programmed anyway, and DNS is served as soon as the other server has stopped.
#[test]
fn another_server_at_the_address_delays_only_dns() {
    let mut node = Node::new();
    let lo = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        node.lab.host(topology::NODE).command(&words).unwrap();
    };
    lo("ip address add 169.254.20.10/32 dev lo");
    let other = node.lab.host(topology::NODE).run(|| std::net::TcpListener::bind((DNS, 53)).unwrap());
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    node.start_with(&["--dns", DNS, "--sync-period", "1s"]);
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
    assert!(node.log().contains("another DNS server listens there"), "{}", node.log());
    drop(other);
    until("names are served", || dig(&node, "pod-a3", "web.default.svc.cluster.local") == WEB_IP);
}

/// Connection tracking does not see queries.
#[test]
fn queries_are_not_tracked() {
    let node = serving_names(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    for protocol in ["+notcp", "+tcp"] {
        for host in ["pod-a3", topology::NODE] {
            assert_eq!(
                dig(&node, host, &format!("{protocol} web.default.svc.cluster.local")),
                WEB_IP,
                "{host} {protocol}"
            );
        }
    }
    let tracked = node.lab.host(topology::NODE).command(&["conntrack", "-L"]).unwrap();
    assert!(!tracked.contains(DNS), "{tracked}");
    let rules = node.nft("list table ip portolan-dns");
    assert!(rules.contains("ip daddr 169.254.20.10 udp dport 53 notrack comment \"queries over udp\""), "{rules}");
}

/// One query, without the start-up time of a program.
fn is_answered(node: &Node) -> bool {
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03web\x07default\x03svc\x07cluster\x05local\0\0\x01\0\x01";
    let ask = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((DNS, 53))?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.send(question)?;
        let mut answer = [0; 512];
        socket.recv(&mut answer)?;
        Ok(answer[7] > 0)
    };
    node.lab.host(topology::NODE).run(ask).expect("every query is answered")
}

fn has_rules(node: &Node) -> bool {
    node.nft("list map ip portolan services").contains(WEB_IP)
}

/// Queries in a loop while the Service is created and deleted: a name is never answered while there are no rules for
/// its address, neither before nor after.
#[test]
fn a_name_is_answered_only_while_its_rules_are_there() {
    let node = serving_names(&[]);
    for _ in 0..10 {
        node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
        until("the name is there", || {
            let is_there = is_answered(&node);
            assert!(!is_there || has_rules(&node), "the name was answered before its rules were there");
            is_there
        });
        node.remove("web.yaml");
        until("the name is gone", || {
            let had_rules = has_rules(&node);
            let is_there = is_answered(&node);
            assert!(!is_there || had_rules, "the name was answered after its rules were gone");
            !is_there
        });
    }
}

#[test]
fn names_survive_a_restart_and_go_with_a_cleanup() {
    let mut node = serving_names(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    node.kill();
    node.start_with(&["--dns", DNS]);
    assert_eq!(dig(&node, "pod-a3", "web.default.svc.cluster.local"), WEB_IP);
    node.stop();
    let addresses = || node.lab.host(topology::NODE).command(&["ip", "-4", "address", "show", "lo"]).unwrap();
    assert!(addresses().contains(DNS));
    assert!(String::from_utf8_lossy(&node.plainly(&["cleanup"]).stdout).contains(DNS));
    assert!(!addresses().contains(DNS));
}
