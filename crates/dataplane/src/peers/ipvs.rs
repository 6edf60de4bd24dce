//! What kube-proxy's ipvs mode leaves besides iptables chains: a device with the Services' addresses, virtual servers
//! and IP sets.

use portolan_kernel::ipset::{self, IpSets};
use portolan_kernel::links;
use portolan_model::Family;

use super::{Doing, Trouble, virtual_servers};
use crate::ipvs::{DEVICE, SetKind, SetName};

/// Everything found, each in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    pub(super) device: bool,
    pub(super) sets: Vec<String>,
}

pub(super) fn find() -> Doing<Leftovers> {
    let device = links::link_exists(DEVICE).map_err(|error| Trouble::new("looking for kube-ipvs0", error))?;
    let mut sets = IpSets::open().map_err(|error| Trouble::new("looking for IP sets", error))?;
    let mut found = Vec::new();
    for name in SetName::all().map(|name| name.to_string()) {
        if sets.exists(&name).map_err(|error| Trouble::new("looking for IP sets", error))? {
            found.push(name);
        }
    }
    Ok(Leftovers { device, sets: found })
}

/// Whether our own ipvs mode has made the sets: kube-proxy has none of this name.
pub(super) fn is_ours() -> Doing<bool> {
    let own = SetName { family: Family::V4, kind: SetKind::NoLocalEndpoints };
    let trouble = |error| Trouble::new("looking for our IP sets", error);
    IpSets::open().and_then(|mut sets| sets.exists(&own.to_string())).map_err(trouble)
}

/// Connections that IPVS already carries go on only as long as their virtual server and its address are there, so both
/// stay until the last has ended, unless the caller cannot wait. The caller tries again later.
pub(super) fn remove_servers(cut_connections: bool) -> Doing<Vec<String>> {
    let servers = virtual_servers::of_services()?;
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
