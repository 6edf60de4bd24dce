//! The output of `ipvsadm`, `ipset`, `ip` and `iptables`, as operators know it from kube-proxy; and foreign objects
//! stay.

use portolan_dataplane::peers::cleanup_own;
use portolan_testkit::{Host, topology};

use crate::lab;
use crate::poll::until;
use crate::world::{World, service};

const ENDPOINTS: [&str; 3] = ["10.244.1.2", "10.244.2.2", "10.244.2.3"];

const SERVERS: &str = "\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  10.104.87.249:80 rr
  -> 10.244.1.2:8080              Masq    1      0          0
  -> 10.244.2.2:8080              Masq    1      0          0
  -> 10.244.2.3:8080              Masq    1      0          0
TCP  192.168.50.1:30806 rr
  -> 10.244.1.2:8080              Masq    1      0          0
  -> 10.244.2.2:8080              Masq    1      0          0
  -> 10.244.2.3:8080              Masq    1      0          0
TCP  192.168.51.1:30806 rr
  -> 10.244.1.2:8080              Masq    1      0          0
  -> 10.244.2.2:8080              Masq    1      0          0
  -> 10.244.2.3:8080              Masq    1      0          0
";

/// Sets that hold something, each with its type and members.
const SETS: &str = "\
KUBE-CLUSTER-IP hash:ip,port 10.104.87.249,tcp:80
KUBE-IPVS-IPS hash:ip 10.104.87.249
KUBE-LOOP-BACK hash:ip,port,ip 10.244.1.2,tcp:8080,10.244.1.2
KUBE-NODE-PORT-TCP bitmap:port 30806
";

const RULES: &str = "\
-N KUBE-SERVICES
-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
-A KUBE-SERVICES -m comment --comment \"Kubernetes service lb portal\" -m set --match-set KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER
-A KUBE-SERVICES ! -s 10.244.0.0/16 -m comment --comment \"Kubernetes service cluster ip + port for masquerade purpose\" -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m comment --comment \"Kubernetes service external ip + port for masquerade and filter purpose\" -m set --match-set KUBE-EXTERNAL-IP dst,dst -j KUBE-MARK-MASQ
-A KUBE-SERVICES ! -s 10.244.0.0/16 -m comment --comment \"Kubernetes service external ip + port with externalTrafficPolicy=local\" -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m set ! --match-set KUBE-IPVS-IPS dst -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
-A KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j ACCEPT
";

/// `ipset list -output plain` prints many fields; the name, the type and the members are compared.
fn filled_sets(text: &str) -> String {
    let sets = text.split("\n\n").filter_map(|block| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let members: Vec<&str> = block.lines().skip_while(|line| *line != "Members:").skip(1).collect();
        let set = format!("{} {} {}\n", field("Name: "), field("Type: "), members.join(" "));
        (!members.is_empty()).then_some(set)
    });
    let mut sets: Vec<String> = sets.collect();
    sets.sort();
    sets.concat()
}

fn sorted_servers(text: &str) -> String {
    let (head, servers) = text.split_at(text.find("TCP").unwrap_or(text.len()));
    let mut blocks: Vec<String> = servers
        .split("TCP ")
        .skip(1)
        .map(|block| {
            let mut lines: Vec<&str> = block.lines().map(str::trim_end).collect();
            lines[1..].sort_unstable();
            format!("TCP {}\n", lines.join("\n"))
        })
        .collect();
    blocks.sort();
    head.to_owned() + &blocks.concat()
}

#[test]
fn a_node_port_service_looks_as_it_does_with_kube_proxy() {
    let lab = lab();
    let mut world = World::new(&lab, "rr");
    world.put(service("hello", "10.104.87.249", Some(30_806)), &ENDPOINTS);
    world.sync();
    assert_eq!(sorted_servers(&world.shown(&["ipvsadm", "-ln"])), SERVERS);
    assert_eq!(filled_sets(&world.shown(&["ipset", "list"])), SETS);
    let device = world.shown(&["ip", "address", "show", "kube-ipvs0"]);
    assert!(device.contains("kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN"), "{device}");
    assert!(device.contains("    inet 10.104.87.249/32 scope global kube-ipvs0\n"), "{device}");
    assert_eq!(world.shown(&["iptables-nft", "-t", "nat", "-S", "KUBE-SERVICES"]), RULES);
    let rules = |world: &World<'_>| world.shown(&["iptables-save"]).lines().filter(|it| it.starts_with("-A")).count();
    let before = rules(&world);
    world.put(service("other", "10.104.87.250", Some(30_807)), &ENDPOINTS);
    world.sync();
    assert_eq!(rules(&world), before, "the number of rules does not depend on Services");
    world.clear();
    world.sync();
}

fn foreign_things(node: &Host) {
    let commands = [
        "ipvsadm -A -t 192.168.50.1:9999 -s rr",
        "ipvsadm -a -t 192.168.50.1:9999 -r 10.244.1.2:1 -m",
        "ipset create OTHERS hash:ip",
        "ipset add OTHERS 192.0.2.1",
    ];
    for command in commands {
        node.command(&command.split(' ').collect::<Vec<_>>()).expect("the tools work");
    }
}

#[test]
fn foreign_objects_stay_and_ours_are_removed() {
    let lab = lab();
    let node = lab.host(topology::NODE);
    foreign_things(node);
    let mut world = World::new(&lab, "rr");
    world.put(service("hello", "10.104.87.249", Some(30_806)), &ENDPOINTS);
    world.sync();
    world.clear();
    world.sync();
    world.put(service("hello", "10.104.87.249", Some(30_806)), &ENDPOINTS);
    world.sync();
    let report = node.run(cleanup_own);
    assert!(report.is_complete(), "{report}");
    let servers = world.shown(&["ipvsadm", "-ln"]);
    assert!(servers.contains("TCP  192.168.50.1:9999 rr\n  -> 10.244.1.2:1 "), "{servers}");
    assert_eq!(servers.matches("TCP ").count(), 1, "{servers}");
    assert_eq!(filled_sets(&world.shown(&["ipset", "list"])), "OTHERS hash:ip 192.0.2.1\n");
    assert!(!world.shown(&["ip", "link"]).contains("kube-ipvs0"));
    for program in ["iptables-nft-save", "ip6tables-nft-save"] {
        assert!(!world.shown(&[program]).contains("KUBE-"), "{}", world.shown(&[program]));
    }
    world.shown(&["ipvsadm", "-D", "-t", "192.168.50.1:9999"]);
    world.shown(&["ipset", "destroy", "OTHERS"]);
}

/// IPVS keeps the servers of all network namespaces in one table, and lists a part of it at a time.
#[test]
fn all_servers_are_removed_beside_those_of_another_network_namespace() {
    let lab = lab();
    let other = lab.host("node-b");
    let servers: String = (1..=200).map(|number| format!("-A -t 10.99.0.{number}:80 -s rr\n")).collect();
    other.command_with_input(&["ipvsadm", "-R"], &servers).expect("ipvsadm works");
    let mut world = World::new(&lab, "rr");
    for number in 1..=200 {
        world.put(service(&format!("s{number}"), &format!("10.104.0.{number}"), None), &ENDPOINTS);
    }
    world.sync();
    // A listing loses one if another test changes the table between two of its parts.
    until("all are there", || world.shown(&["ipvsadm", "-ln"]).matches("TCP ").count() == 200);
    let report = lab.host(topology::NODE).run(cleanup_own);
    other.command(&["ipvsadm", "-C"]).expect("ipvsadm works");
    assert!(report.is_complete(), "{report}");
    assert_eq!(world.shown(&["ipvsadm", "-ln"]).matches("TCP ").count(), 0);
}
