//! What kube-proxy's ipvs mode leaves besides iptables chains: a device with the Services' addresses, virtual servers
//! and IP sets.

use portolan_kernel::ipset::{self, IpSets};
use portolan_kernel::links;

use super::{Doing, Trouble, virtual_servers};

/// The device that holds the addresses of all Services.
pub(super) const DEVICE: &str = "kube-ipvs0";

/// Names without the prefix, which is `KUBE-` for IPv4 and `KUBE-6-` for IPv6.
const SETS: [&str; 17] = [
    "LOOP-BACK",
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "LOAD-BALANCER",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-SOURCE-IP",
    "LOAD-BALANCER-SOURCE-CIDR",
    "NODE-PORT-TCP",
    "NODE-PORT-UDP",
    "NODE-PORT-LOCAL-TCP",
    "NODE-PORT-LOCAL-UDP",
    "NODE-PORT-SCTP-HASH",
    "NODE-PORT-LOCAL-SCTP-HASH",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
];
/// The kernel's limit for names of sets, to which kube-proxy cuts them.
const LONGEST_SET_NAME: usize = 31;

/// Everything found, each in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    pub(super) device: bool,
    pub(super) sets: Vec<String>,
}

fn set_names() -> impl Iterator<Item = String> {
    let named = |prefix: &'static str| SETS.iter().map(move |name| format!("{prefix}{name}"));
    named("KUBE-").chain(named("KUBE-6-")).map(|mut name| {
        name.truncate(LONGEST_SET_NAME);
        name
    })
}

pub(super) fn find() -> Doing<Leftovers> {
    let device = links::link_exists(DEVICE).map_err(|error| Trouble::new("looking for kube-ipvs0", error))?;
    let mut sets = IpSets::open().map_err(|error| Trouble::new("looking for IP sets", error))?;
    let mut found = Vec::new();
    for name in set_names() {
        if sets.exists(&name).map_err(|error| Trouble::new("looking for IP sets", error))? {
            found.push(name);
        }
    }
    Ok(Leftovers { device, sets: found })
}

/// Connections that IPVS already carries go on only as long as their virtual server and its address are there, so both
/// stay until the last has ended, unless the caller cannot wait. The caller tries again later.
pub(super) fn remove_device(cut_connections: bool) -> Doing<Vec<String>> {
    let servers = virtual_servers::of_device(DEVICE)?;
    let busy: u32 = servers.iter().map(|server| server.connections).sum();
    if busy > 0 && !cut_connections {
        let reason = format!("{busy} connections go through IPVS still; it stays until they have ended");
        return Err(Trouble::new(format!("removing {DEVICE}"), reason));
    }
    let mut removed = virtual_servers::remove(&servers)?;
    if links::delete_link(DEVICE).map_err(|error| Trouble::new(format!("removing {DEVICE}"), error))? {
        removed.push(format!("interface {DEVICE}"));
    }
    Ok(removed)
}

/// One set that is still in use keeps none of the others.
pub(super) fn remove_sets(names: &[String]) -> Doing<(Vec<String>, Vec<Trouble>)> {
    let mut sets = IpSets::open().map_err(|error| Trouble::new("removing IP sets", error))?;
    let (mut removed, mut troubles) = (Vec::new(), Vec::new());
    for name in names {
        match sets.destroy(name) {
            Ok(_) => removed.push(format!("IP set {name}")),
            Err(error) if ipset::is_in_use(&error) => {
                troubles.push(Trouble::new(format!("removing IP set {name}"), "a rule still refers to it"));
            }
            Err(error) => troubles.push(Trouble::new(format!("removing IP set {name}"), error)),
        }
    }
    Ok((removed, troubles))
}
