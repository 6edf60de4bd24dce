//! DNS beside the rules: `portolan proxy --dns`.

use std::net::UdpSocket;
use std::time::Duration;

use portolan_testkit::{Protocol, topology};
use rustix::process::{Pid, Signal, kill_process};

use crate::dns::server::receive;
use crate::node::{Node, WEB, WEB_IP, service, web};
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
        receive(&socket, &mut answer)?;
        Ok(answer[7] > 0)
    };
    node.lab.host(topology::NODE).run(ask).expect("every query is answered")
}

fn has_rules(node: &Node) -> bool {
    node.nft("list map ip portolan services").contains(WEB_IP)
}

/// The DNS process of the node's daemon, with its status.
fn worker(node: &Node) -> Option<(i32, String)> {
    let parent = format!("PPid:\t{}\n", node.process());
    std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let path = entry.ok()?.path();
        let status = std::fs::read_to_string(path.join("status")).ok().filter(|status| status.contains(&parent))?;
        let is_worker = std::fs::read_to_string(path.join("cmdline")).ok()?.contains("dns-worker");
        let process = path.file_name()?.to_str()?.parse().ok()?;
        is_worker.then_some((process, status))
    })
}

/// What parses messages from the network has no privileges, and its end affects neither rules nor, for long, names.
#[test]
fn dns_can_have_a_process_without_privileges() {
    let mut node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.start_with(&["--dns", DNS, "--dns-user", "65534", "--metrics-bind-address", "127.0.0.1:10249"]);
    let name = "web.default.svc.cluster.local";
    until("names are served", || dig(&node, "pod-a3", name) == WEB_IP);
    assert_eq!(dig(&node, "pod-a3", &format!("+tcp {name}")), WEB_IP);
    let (process, status) = worker(&node).unwrap();
    for line in ["Uid:\t65534\t65534\t65534", "Gid:\t65534\t65534", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    assert!(status.contains("CapPrm:\t0000000000000000") && status.contains("Groups:\t \n"), "{status}");

    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    until("another process runs", || worker(&node).is_some_and(|(other, _)| other != process));
    until("names are served again", || dig(&node, "pod-a3", name) == WEB_IP);
    assert!(node.get("127.0.0.1:10249", "/metrics").contains("portolan_dns_process_restarts_total 1\n"));
    assert!(has_rules(&node));

    // Rules do not wait for a process that hangs; it is replaced.
    let (hanging, _) = worker(&node).unwrap();
    kill_process(Pid::from_raw(hanging).unwrap(), Signal::STOP).unwrap();
    node.write("other.yaml", &service("other", "10.96.0.81", "", &["10.244.1.3"]));
    until("the rules are there", || node.nft("list map ip portolan services").contains("10.96.0.81"));
    until("another process runs", || worker(&node).is_some_and(|(other, _)| other != hanging));
    until("the new name is served", || dig(&node, "pod-a3", "other.default.svc.cluster.local") == "10.96.0.81");
    let (last, _) = worker(&node).unwrap();
    node.stop();
    assert!(!std::path::Path::new(&format!("/proc/{last}")).exists(), "it ends with the daemon");
}

/// Queries in a loop while the Service is created and deleted: a name is never answered while there are no rules for
/// its address, neither before nor after.
#[test]
fn a_name_is_answered_only_while_its_rules_are_there() {
    names_follow_rules(&serving_names(&[]));
}

#[test]
fn a_name_of_the_dns_process_is_answered_only_while_its_rules_are_there() {
    let mut node = Node::new();
    node.start_with(&["--dns", DNS, "--dns-user", "65534"]);
    until("names are served", || dig(&node, topology::NODE, "dns-version.cluster.local TXT").contains("1.1.0"));
    names_follow_rules(&node);
}

fn names_follow_rules(node: &Node) {
    for _ in 0..10 {
        node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
        until("the name is there", || {
            let is_there = is_answered(node);
            assert!(!is_there || has_rules(node), "the name was answered before its rules were there");
            is_there
        });
        node.remove("web.yaml");
        until("the name is gone", || {
            let had_rules = has_rules(node);
            let is_there = is_answered(node);
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
