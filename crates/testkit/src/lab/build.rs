//! Wiring: namespaces, sysctls, links, addresses and routes, by one or two `ip -batch` runs per host.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::host::Host;
use crate::error::Error;
use crate::topology::HOSTS;

const LINKS_UP_WITHIN: Duration = Duration::from_secs(10);

/// A cable: a host and its interface at either end.
type Cable = ((&'static str, &'static str), (&'static str, &'static str));

const CABLES: &[Cable] = &[
    (("node-a", "eth0"), ("node-b", "eth0")),
    (("node-a", "eth1"), ("node-b", "eth1")),
    (("node-a", "eth2"), ("client", "eth0")),
    (("node-a", "veth-a1"), ("pod-a1", "eth0")),
    (("node-a", "veth-a2"), ("pod-a2", "eth0")),
    (("node-a", "veth-a3"), ("pod-a3", "eth0")),
    (("node-b", "veth-b1"), ("pod-b1", "eth0")),
    (("node-b", "veth-b2"), ("pod-b2", "eth0")),
    (("node-b", "veth-b3"), ("pod-b3", "eth0")),
];

/// The source hint of the default routes makes node-a use its node address when a program leaves the choice to the
/// kernel. The client forwards nothing, so packets on the default route to other addresses end there.
const NODE_A: &str = "\
address add 192.168.50.1/24 dev eth0
address add fd00:50::1/64 dev eth0 nodad
address add 192.168.51.1/24 dev eth1
address add fd00:51::1/64 dev eth1 nodad
address add 203.0.113.1/24 dev eth2
address add 2001:db8:113::1/64 dev eth2 nodad
route add default via 203.0.113.9 dev eth2 src 192.168.50.1
route add default via 2001:db8:113::9 dev eth2 src fd00:50::1
route add 10.244.2.0/24 via 192.168.50.2 dev eth0
route add fd00:10:244:2::/64 via fd00:50::2 dev eth0
";

/// The blackholes keep packets to pods that do not exist from looping between the nodes until their TTL ends.
const NODE_B: &str = "\
address add 192.168.50.2/24 dev eth0
address add fd00:50::2/64 dev eth0 nodad
address add 192.168.51.2/24 dev eth1
address add fd00:51::2/64 dev eth1 nodad
route add default via 192.168.50.1 dev eth0
route add default via fd00:50::1 dev eth0
route add blackhole 10.244.2.0/24
route add blackhole fd00:10:244:2::/64
";

/// The local routes make the client answer for the rest of the world.
const CLIENT: &str = "\
address add 203.0.113.9/24 dev eth0
address add 2001:db8:113::9/64 dev eth0 nodad
route add default via 203.0.113.1 dev eth0
route add default via 2001:db8:113::1 dev eth0
route add local 192.0.2.0/24 dev lo
route add local 2001:db8:2::/64 dev lo
";

/// A new namespace inherits some values from the machine, so the relevant ones are set. Without the limits on ICMP
/// errors, each rejected datagram of a burst is answered.
const SYSCTLS: &[(&str, &str)] = &[
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv4/conf/default/accept_redirects", "0"),
    ("ipv4/icmp_ratelimit", "0"),
    // The types that a second, global limit counts: none, and for IPv6 only a type that the lab does not send.
    ("ipv4/icmp_ratemask", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/dad_transmits", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/all/accept_redirects", "0"),
    ("ipv6/conf/default/accept_redirects", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv6/icmp/ratemask", "128"),
];

pub(super) fn hosts() -> Result<Vec<Host>, Error> {
    let hosts: Vec<Host> = HOSTS.iter().map(|row| Host::create(row.name)).collect::<Result<_, _>>()?;
    hosts.iter().try_for_each(write_sysctls)?;
    ["node-a", "node-b"].iter().try_for_each(|name| add_links(find(&hosts, name), &hosts))?;
    hosts.iter().try_for_each(configure)?;
    hosts.iter().try_for_each(wait_for_links)?;
    Ok(hosts)
}

fn find<'a>(hosts: &'a [Host], name: &str) -> &'a Host {
    hosts.iter().find(|host| host.name() == name).expect("the cables name hosts of the topology")
}

fn write_sysctls(host: &Host) -> Result<(), Error> {
    let forwarding = if host.name().starts_with("node-") { "1" } else { "0" };
    // Unlike IPv4, IPv6 lets a socket bind to an address of a local route only with this.
    let nonlocal = if host.name() == "client" { "1" } else { "0" };
    // Turning forwarding on or off resets other values, so it goes first.
    let own = [
        ("ipv4/ip_forward", forwarding),
        ("ipv6/conf/all/forwarding", forwarding),
        ("ipv6/ip_nonlocal_bind", nonlocal),
    ];
    host.run(|| own.iter().chain(SYSCTLS).try_for_each(|(path, value)| write_sysctl(host, path, value)))
}

fn write_sysctl(host: &Host, path: &str, value: &'static str) -> Result<(), Error> {
    let path = format!("/proc/sys/net/{path}");
    fs::write(&path, value).map_err(|source| Error::Sysctl { host: host.name(), path, value, source })
}

fn add_links(host: &Host, hosts: &[Host]) -> Result<(), Error> {
    let own = CABLES.iter().filter(|((near, _), _)| *near == host.name());
    let batch: String = own
        .map(|((_, link), (far, far_link))| {
            let namespace = find(hosts, far).namespace_path();
            format!("link add {link} type veth peer name {far_link} netns {namespace}\n")
        })
        .collect();
    run_batch(host, &batch)
}

fn configure(host: &Host) -> Result<(), Error> {
    let ups: String = links_of(host).map(|link| format!("link set {link} up\n")).collect();
    let rest = match host.name() {
        "node-a" => format!("{NODE_A}{}", pod_routes("a", 1)),
        "node-b" => format!("{NODE_B}{}", pod_routes("b", 2)),
        "client" => CLIENT.to_owned(),
        pod => pod_addresses(pod),
    };
    run_batch(host, &format!("link set lo up\n{ups}{rest}"))
}

fn links_of(host: &Host) -> impl Iterator<Item = &'static str> {
    let ends = CABLES.iter().flat_map(|(near, far)| [near, far]);
    ends.filter(|(name, _)| *name == host.name()).map(|(_, link)| *link)
}

/// A node's side of its three pods: the same gateway address on each link, and one route per pod.
fn pod_routes(node: &str, subnet: u8) -> String {
    let route = |pod: u8| {
        let link = format!("veth-{node}{pod}");
        let last = pod + 1;
        format!(
            "address add 10.244.{subnet}.1/32 dev {link}\n\
             address add fd00:10:244:{subnet}::1/128 dev {link} nodad\n\
             route add 10.244.{subnet}.{last}/32 dev {link}\n\
             route add fd00:10:244:{subnet}::{last}/128 dev {link}\n"
        )
    };
    (1..=3).map(route).collect()
}

/// A pod's own side: one address, and a default route through the node.
fn pod_addresses(pod: &str) -> String {
    let row = crate::topology::by_name(pod).expect("the pod is a host of the topology");
    let (ipv4, ipv6) = (row.ipv4[0], row.ipv6[0]);
    let subnet = ipv4.octets()[2];
    format!(
        "address add {ipv4}/32 dev eth0\n\
         address add {ipv6}/128 dev eth0 nodad\n\
         route add 10.244.{subnet}.1/32 dev eth0\n\
         route add fd00:10:244:{subnet}::1/128 dev eth0\n\
         route add default via 10.244.{subnet}.1 dev eth0 src {ipv4}\n\
         route add default via fd00:10:244:{subnet}::1 dev eth0 src {ipv6}\n"
    )
}

fn run_batch(host: &Host, batch: &str) -> Result<(), Error> {
    host.command_with_input(&["ip", "-batch", "-"], batch).map(drop)
}

/// The kernel activates a link a moment after both of its ends are up, and until then its queue drops every packet.
fn wait_for_links(host: &Host) -> Result<(), Error> {
    let deadline = Instant::now() + LINKS_UP_WITHIN;
    loop {
        let state = host.command(&["ip", "-oneline", "link", "show", "type", "veth"])?;
        if state.lines().all(|link| link.contains(" state UP ") && !link.contains(" qdisc noop ")) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::LinksDown { host: host.name(), state });
        }
        thread::yield_now();
    }
}
