//! What ipvs mode needs of the machine: IPVS itself, its sysctls, and an available scheduler.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use portolan_kernel::ipvs::{Ipvs as Balancer, Requests, Scheduling, ServerAddress, Timeouts};
use portolan_kernel::sysctl;

use super::DEFAULT_SCHEDULER;
use crate::Error;
use crate::requirements::version;

/// Every scheduler that a kernel can have, each in its own module.
const SCHEDULERS: [&str; 14] =
    ["rr", "wrr", "lc", "wlc", "sed", "nq", "dh", "sh", "mh", "lblc", "lblcr", "fo", "ovf", "twos"];

/// An address reserved for documentation. A server is created on it for a moment, to see whether the scheduler works.
const PROBE: ServerAddress = ServerAddress {
    address: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(198, 51, 100, 0)), 20_000),
    protocol: 6,
};

/// Machine settings of this mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpvsSettings {
    /// The node answers ARP only for addresses of the interface that receives the request, and not for those on the
    /// device.
    pub strict_arp: bool,
    pub timeouts: Timeouts,
}

pub(super) fn open_balancer() -> Result<Balancer, Error> {
    Balancer::open()?.ok_or_else(|| Error::Program {
        attempted: "opening IPVS".into(),
        reason: "this kernel has none: load the module ip_vs, or run in mode nftables, which serves the same Services"
            .into(),
    })
}

/// Sysctls without which connections would not survive their endpoints, or would not be masqueraded.
pub fn prepare(settings: &IpvsSettings) -> Result<(), Error> {
    let mut balancer = open_balancer()?;
    for name in ["vs/conntrack", "vs/expire_nodest_conn", "vs/expire_quiescent_template", "ip_forward"] {
        sysctl::set(&format!("net/ipv4/{name}"), "1")?;
    }
    if has_slow_reuse(sysctl::read("kernel/osrelease")?.as_deref().unwrap_or_default()) {
        sysctl::set("net/ipv4/vs/conn_reuse_mode", "0")?;
    }
    if settings.strict_arp {
        sysctl::set("net/ipv4/conf/all/arp_ignore", "1")?;
        sysctl::set("net/ipv4/conf/all/arp_announce", "2")?;
    }
    if settings.timeouts != Timeouts::default() {
        balancer.set_timeouts(settings.timeouts)?;
    }
    Ok(())
}

/// From Linux 4.1 to 5.8, a client that soon reuses a port waits for a second.
fn has_slow_reuse(release: &str) -> bool {
    ((4, 1)..(5, 9)).contains(&version(release))
}

/// The schedulers that this kernel offers. Fails unless the wanted one is among them.
pub fn schedulers(wanted: &str) -> Result<BTreeSet<String>, Error> {
    let wanted = if wanted.is_empty() { DEFAULT_SCHEDULER } else { wanted };
    let mut balancer = open_balancer()?;
    let mut offered = BTreeSet::new();
    for scheduler in SCHEDULERS.into_iter().filter(|it| *it != wanted).chain([wanted]) {
        if is_offered(&mut balancer, scheduler)? {
            offered.insert(scheduler.to_owned());
        }
    }
    if offered.contains(wanted) {
        return Ok(offered);
    }
    let names: Vec<&str> = offered.iter().map(String::as_str).collect();
    Err(Error::Program {
        attempted: format!("using the IPVS scheduler {wanted:?}"),
        reason: format!("this kernel does not offer it; it offers {}", names.join(", ")),
    })
}

fn is_offered(balancer: &mut Balancer, scheduler: &str) -> Result<bool, Error> {
    let mut requests = Requests::default();
    let scheduling = Scheduling { scheduler: scheduler.into(), persistence: None, flags: 0 };
    requests.add_server(PROBE, scheduling);
    requests.delete_server(PROBE);
    match balancer.perform(requests) {
        Err(error) if error.is_absent() => Ok(false),
        answer => Ok(answer.map(|_| true)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_with_slow_reuse_are_known_by_their_release() {
        for (release, is_slow) in [
            ("4.0.1", false),
            ("4.1.0-generic", true),
            ("4.19.0-21-amd64", true),
            ("5.8", true),
            ("5.9.0", false),
            ("6.1.0-54-amd64", false),
            ("", false),
        ] {
            assert_eq!(has_slow_reuse(release), is_slow, "{release}");
        }
    }
}
