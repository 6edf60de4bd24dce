//! The netlink interfaces of IPVS and of the dummy device, compared with `ipvsadm` and `ip`.

use std::net::SocketAddr;
use std::process::Command;

use portolan_kernel::ipvs::{Ipvs, Requests, Scheduling, ServerAddress, Timeouts};
use portolan_kernel::links::{AddressChanges, add_dummy_link, delete_link, link_number};
use portolan_kernel::{addresses::interface_addresses, enter_new_network_namespace, sysctl};

fn output(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address with a port")
}

fn scheduling(scheduler: &str, persistence: Option<u32>) -> Scheduling {
    Scheduling { scheduler: scheduler.into(), persistence, flags: 0 }
}

#[test]
fn virtual_servers_are_as_ipvsadm_sees_them_and_are_read_back() {
    enter_new_network_namespace().unwrap();
    // Without routes, the kernel treats no address as unicast.
    output(&["ip", "link", "set", "lo", "up"]);
    let mut ipvs = Ipvs::open().unwrap().expect("the VM has IPVS");
    assert_eq!(ipvs.version().unwrap(), [1, 2, 1]);
    let v4 = ServerAddress { address: socket("10.96.0.10:80"), protocol: 6 };
    let v6 = ServerAddress { address: socket("[fd00:96::a]:53"), protocol: 17 };
    let mut requests = Requests::default();
    requests.add_server(v4, scheduling("rr", Some(10_800)));
    requests.add_server(v6, scheduling("lc", None));
    requests.add_destination(v4, socket("10.244.1.2:8080"), 1);
    requests.add_destination(v4, socket("10.244.2.2:8080"), 1);
    requests.add_destination(v6, socket("[fd00:244::2]:5353"), 1);
    requests.add_destination(v4, socket("10.244.1.2:8080"), 1);
    assert_eq!(ipvs.perform(requests).unwrap(), [5], "one was there already");
    let saved = output(&["ipvsadm", "--save", "-n"]);
    for line in [
        "-A -t 10.96.0.10:80 -s rr -p 10800",
        "-a -t 10.96.0.10:80 -r 10.244.1.2:8080 -m -w 1",
        "-a -t 10.96.0.10:80 -r 10.244.2.2:8080 -m -w 1",
        "-A -u [fd00:96::a]:53 -s lc",
        "-a -u [fd00:96::a]:53 -r [fd00:244::2]:5353 -m -w 1",
    ] {
        assert!(saved.lines().any(|it| it.trim() == line), "{line} is not in\n{saved}");
    }
    let mut servers = ipvs.servers().unwrap();
    servers.sort_by_key(|(server, _)| *server);
    assert_eq!(servers, [(v4, scheduling("rr", Some(10_800))), (v6, scheduling("lc", None))]);

    let mut requests = Requests::default();
    requests.set_server(v4, scheduling("sh", None));
    requests.set_destination(v4, socket("10.244.1.2:8080"), 0);
    requests.delete_destination(v4, socket("10.244.2.2:8080"));
    requests.delete_destination(v4, socket("10.244.2.2:8080"));
    requests.delete_server(v6);
    requests.delete_server(v6);
    ipvs.perform(requests).unwrap();
    assert_eq!(ipvs.servers().unwrap(), [(v4, scheduling("sh", None))]);
    let destinations = ipvs.destinations(v4).unwrap();
    assert_eq!(destinations.len(), 1);
    let first = destinations[0];
    assert_eq!((first.endpoint, first.weight, first.connections()), (socket("10.244.1.2:8080"), 0, 0));
    assert!(first.masquerades && ipvs.destinations(v6).unwrap_or_default().is_empty());
}

#[test]
fn a_scheduler_that_the_kernel_lacks_is_named() {
    enter_new_network_namespace().unwrap();
    let mut ipvs = Ipvs::open().unwrap().expect("the VM has IPVS");
    let server = ServerAddress { address: socket("10.96.0.10:80"), protocol: 6 };
    let mut requests = Requests::default();
    requests.add_server(server, scheduling("guess", None));
    let error = ipvs.perform(requests).unwrap_err();
    assert!(error.to_string().contains("add virtual server TCP 10.96.0.10:80 with scheduler guess"), "{error}");
    assert!(error.is_absent());
}

#[test]
fn timeouts_are_set_and_zero_leaves_them() {
    enter_new_network_namespace().unwrap();
    let mut ipvs = Ipvs::open().unwrap().expect("the VM has IPVS");
    let before = ipvs.timeouts().unwrap();
    ipvs.set_timeouts(Timeouts { tcp: 600, tcp_fin: 0, udp: 120 }).unwrap();
    assert_eq!(ipvs.timeouts().unwrap(), Timeouts { tcp: 600, tcp_fin: before.tcp_fin, udp: 120 });
}

#[test]
fn addresses_on_a_dummy_device() {
    enter_new_network_namespace().unwrap();
    assert_eq!(link_number("kube-ipvs0").unwrap(), None);
    assert!(add_dummy_link("kube-ipvs0").unwrap() && !add_dummy_link("kube-ipvs0").unwrap());
    let link = link_number("kube-ipvs0").unwrap().expect("just made");
    let mut changes = AddressChanges::of_link(link);
    for address in ["10.96.0.10", "10.96.0.11", "fd00:96::a", "10.96.0.10"] {
        changes.add(address.parse().unwrap());
    }
    changes.perform().unwrap();
    let mut changes = AddressChanges::of_link(link);
    for address in ["10.96.0.11", "10.96.0.12"] {
        changes.delete(address.parse().unwrap());
    }
    changes.perform().unwrap();
    let shown = output(&["ip", "-oneline", "address", "show", "kube-ipvs0"]);
    assert!(shown.contains("inet 10.96.0.10/32 scope global kube-ipvs0"), "{shown}");
    assert!(shown.contains("inet6 fd00:96::a/128"), "{shown}");
    assert_eq!(interface_addresses().unwrap().len(), 2);
    assert!(output(&["ip", "link", "show", "kube-ipvs0"]).contains("<BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN"));
    assert!(delete_link("kube-ipvs0").unwrap() && !delete_link("kube-ipvs0").unwrap());
}

#[test]
fn settings_are_those_of_the_namespace() {
    enter_new_network_namespace().unwrap();
    Ipvs::open().unwrap();
    assert_eq!(sysctl::read("net/ipv4/vs/conntrack").unwrap().as_deref(), Some("0"));
    assert!(sysctl::set("net/ipv4/vs/conntrack", "1").unwrap());
    assert!(!sysctl::set("net/ipv4/vs/conntrack", "1").unwrap());
    assert_eq!(sysctl::read("net/ipv4/no_such_setting").unwrap(), None);
}
